// Nodes and runs that the janitor has to clean up, from the controller's state alone. Pure.
#pragma once

#include <optional>
#include <vector>

#include "platform/core/model/state.h"

namespace lockstep::server {

// No process of the node is left, and none will be started again.
bool attempt_has_ended(const model::State& state, const model::NodeId& node);

// The nodes of the run's newest attempt that have ended, in order.
std::vector<model::NodeId> last_ended_nodes(const model::State& state, const model::RunId& run);

// The node after `after`, which need not exist any more, or the first one; empty at the end.
std::optional<model::NodeId> next_node(const model::State& state,
                                       const std::optional<model::NodeId>& after);

}  // namespace lockstep::server
