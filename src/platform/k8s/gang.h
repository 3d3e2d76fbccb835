// The system of a cluster that starts all Pods of a workload together, or none of them.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "text/json.h"

namespace lockstep::k8s {

enum class GangSystem { kueue, volcano, scheduler_plugins };

struct GangScheduling {
  GangSystem system = GangSystem::kueue;
  std::string queue;  // of Kueue or Volcano; empty: Volcano's own default
};

// kueue=QUEUE, volcano, volcano=QUEUE or scheduler-plugins.
Result<GangScheduling> parse_gang_scheduling(std::string_view words);

// The objects of the workload `name` with `nodes` Pods, and what the system needs: a queue's label
// or a PodGroup, which is first.
std::vector<Json> with_gang_scheduling(std::vector<Json> objects, const GangScheduling& gang,
                                       const std::string& name, int nodes);

}  // namespace lockstep::k8s
