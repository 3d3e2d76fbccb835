// HostsByPlacement: the hosts on which Lockstep places runs, and those among which an engine
// chooses (State::placing_engine).
#pragma once

#include <string>

#include "map/map.h"
#include "platform/core/model/state.h"

namespace lockstep::model {

struct HostsByPlacement {
  map::ClusterMap by_lockstep;
  map::ClusterMap by_engine;  // empty if no engine chooses
};

// map: of the state, or as it is after a change.
HostsByPlacement hosts_by_placement(const State& state, const map::ClusterMap& map);

// The name of the engine that starts agents on the hosts of this pod.
const std::string& engine_of(const State& state, const map::Pod& pod);

}  // namespace lockstep::model
