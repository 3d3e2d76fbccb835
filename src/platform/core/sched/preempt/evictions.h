// Evictions: which runs give up their devices so that another run fits at once, at the least loss.
//
// The loss of a run: its work since its last checkpoint, and its restart, times its devices.
//
// Example: two hosts of two devices, all held by runs of one device. On h0, a and b would lose 10
// and 20 minutes; on h1, c and d would lose 1 and 25. A run of one device evicts c. A run of two
// devices evicts c and d, which lose 26 minutes together.
//
// Each host is considered alone: runs are evicted in the order of their loss until the node fits,
// and then those that need not leave stay. The gang takes the hosts whose runs lose least, from one
// pod if it needs one pod; ties are resolved by the map's order. This is the optimum if all runs
// hold equally many devices. In general it may not be, because that is a packing problem.
//
// Cost: runs x log of those on a host + hosts x log hosts.
#pragma once

#include <cstdint>
#include <limits>
#include <optional>
#include <string_view>
#include <vector>

#include "platform/core/sched/capacity/allocated_runs.h"
#include "platform/core/sched/policy.h"

namespace lockstep::sched {

// The runs that may be evicted or paused: preemptible ones and, if pause_behind_key is set, normal
// runs of one host that may pause and are behind this key. Those must have written a checkpoint in
// this attempt, so that each makes progress between two pauses. Runs of `project` with a higher
// priority are ahead, whatever their key.
struct VictimCriteria {
  std::optional<std::int64_t> pause_behind_key{};
  std::string_view project{};
  int priority = 0;
};
inline constexpr VictimCriteria kPreemptibleVictims{};
inline constexpr VictimCriteria kPreemptibleOrSmallVictims{
    std::numeric_limits<std::int64_t>::min()};

// In the order of their hosts; empty if no eviction helps, or none is needed.
std::vector<model::RunId> find_evictions(const FreeCapacity& capacity, const Gang& gang,
                                         AllocatedRuns& allocated_runs,
                                         const SchedulingPolicy& policy,
                                         const VictimCriteria& victims, Time now);

// The time that a run loses if it leaves its devices now; its expected end moves back by it.
Duration lost_time(const SchedulingPolicy& policy, const AllocatedRun& allocated_run, Time now);

}  // namespace lockstep::sched
