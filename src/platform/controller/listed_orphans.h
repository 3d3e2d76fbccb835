// Orphans: the nodes in the engine's list that this store has not started.
#pragma once

#include <optional>

#include "base/clock.h"
#include "platform/core/model/event.h"
#include "platform/core/model/state.h"
#include "platform/engine/engine.h"

namespace lockstep::controller {

// All orphans as of this list, or none if the state has exactly these. An orphan that may be on a
// host that cannot be asked stays. The runs of all listed nodes are in the state.
std::optional<model::OrphansListed> listed_orphans(const model::State& state,
                                                   const engine::EngineList& listed, Time now);

// True if an orphan has the name of the node's run, or a device of the node.
bool conflicts_with_orphan(const model::State& state, const model::Node& node);

}  // namespace lockstep::controller
