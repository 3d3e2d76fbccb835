#include "platform/core/model/hosts_by_placement.h"

namespace lockstep::model {

const std::string& engine_of(const State& state, const map::Pod& pod) {
  return pod.engine.empty() ? state.engine : pod.engine;
}

HostsByPlacement hosts_by_placement(const State& state, const map::ClusterMap& map) {
  HostsByPlacement hosts{.by_lockstep = map, .by_engine = map};
  std::erase_if(hosts.by_lockstep.pods,
                [&](const map::Pod& pod) { return engine_of(state, pod) == state.placing_engine; });
  std::erase_if(hosts.by_engine.pods,
                [&](const map::Pod& pod) { return engine_of(state, pod) != state.placing_engine; });
  return hosts;
}

}  // namespace lockstep::model
