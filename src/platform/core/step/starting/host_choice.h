// HostChoice: what an engine that chooses the hosts of a run is told about its hosts of the map.
#pragma once

#include <string>
#include <vector>

#include "platform/core/model/run.h"
#include "platform/core/model/state.h"

namespace lockstep::step {

struct HostChoice {
  bool gpus = false;  // the devices of the run are GPUs: a host that it may use has some
  // Hosts that lack what the run needs of their hardware and labels, and those that an operator has
  // closed. Also suspected ones, if enough others are left: those that are avoided, and those that
  // have lost an attempt of this run. Without those that the engine itself closes. In the map's
  // order.
  std::vector<std::string> excluded{};
};

// For the attempt, among the hosts of its engine.
HostChoice host_choice_of(const model::State& state, const model::Attempt& attempt);

}  // namespace lockstep::step
