// News of the engine: what its list has and the state does not. Pure: each function compares the
// list with the state, and the controller makes events of the differences.
#pragma once

#include <set>
#include <string>
#include <vector>

#include "platform/core/model/event.h"
#include "platform/core/model/state.h"
#include "platform/engine/engine.h"

namespace lockstep::controller {

bool is_listed(const engine::EngineList& listed, const model::NodeName& node);

// The news of these nodes, which the list has until they are gone.
std::vector<model::Event> news_of_nodes(const model::State& state,
                                        const std::vector<model::NodeId>& awaited,
                                        const engine::EngineList& listed);

// The nodes that counted as gone, and of which a host that can be asked lists processes.
std::vector<model::NodeSeen> returned_nodes(const model::State& state,
                                            const engine::EngineList& listed);

// The given-up nodes that the daemon's engines started, and of which no process is left.
std::vector<model::NodeId> ended_given_up_nodes(const model::State& state,
                                                const engine::EngineList& listed);

// The hosts that have not answered for a long time, as the engine counts it.
std::set<std::string> silent_hosts(const model::State& state, const engine::EngineList& listed);

struct HostNews {
  model::HostsSeen seen;
  std::vector<std::string> changes;  // one line each, for the log; empty: the state has all of it
};
HostNews news_of_hosts(const model::State& state, const engine::EngineList& listed);

}  // namespace lockstep::controller
