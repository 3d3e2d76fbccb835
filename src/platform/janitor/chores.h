// Chores: which nodes and runs the janitor has to see to, by the controller's state alone. Pure.
#pragma once

#include <optional>
#include <vector>

#include "platform/core/model/state.h"

namespace lockstep {

// No process of it is left, and it will hold none again.
bool has_ended(const State& state, const NodeId& node);

// The nodes of the run's newest attempt that has ended, in order.
std::vector<NodeId> last_ended_nodes(const State& state, const RunId& run);

// The node behind `after`, which need not exist any more, or the first; none: that was the last.
std::optional<NodeId> next_node(const State& state, const std::optional<NodeId>& after);

// The run ended longer ago than that. A run that was resumed and has not ended again is not old.
bool is_old(const Run& run, Time now, Duration keep);

}  // namespace lockstep
