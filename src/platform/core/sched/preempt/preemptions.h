// Preemptions: which runs leave devices so that another run fits, or because their host is drained.
//
// For a run that does not fit, in this order: preemptible runs are evicted. A run in the debug
// share pauses small runs, since it is short and moves are limited. For other runs small ones are
// moved; and a run that needs whole hosts pauses small runs that are behind it.
//
// No run is preempted for a run that fits once the runs that were preempted before have left.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "platform/core/sched/preempt/evictions.h"
#include "platform/core/sched/preempt/relocations.h"

namespace lockstep::sched {

struct Preemptions {
  std::vector<model::RunId> evictions;
  std::vector<Relocation> moves;
  bool empty() const { return evictions.empty() && moves.empty(); }
};

// The run that needs devices: it can be placed, but does not fit now.
struct PreemptionRequest {
  Gang gang;
  bool in_debug_share = false;
  std::int64_t queue_key = 0;  // its key in the queue order
  std::string_view project{};
  int priority = 0;  // within the project
};

Preemptions find_preemptions(const PreemptionRequest& request, const DeviceAllocator& allocator,
                             AllocatedRuns& allocated_runs, const SchedulingPolicy& policy,
                             Time now);

// The runs on drained hosts that may be moved and fit elsewhere.
std::vector<Relocation> find_moves_off_drained_hosts(const DeviceAllocator& allocator,
                                                     AllocatedRuns& allocated_runs,
                                                     const SchedulingPolicy& policy, Time now);

}  // namespace lockstep::sched
