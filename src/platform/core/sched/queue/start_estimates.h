// When waiting runs start if they start in queue order, without backfill, and each runs for its
// time limit: an estimate. Backfill lets most start earlier and some later.
#pragma once

#include <optional>
#include <vector>

#include "platform/core/sched/capacity/allocated_runs.h"
#include "platform/core/sched/capacity/device_allocator.h"
#include "platform/core/sched/queue/accounts.h"
#include "platform/core/sched/queue/waiting_list.h"

namespace lockstep::sched {

// In queue order, after a decision at `now`; empty for a run that no host can take at present, and
// for one that exceeds a limit.
//
// Cost: the placement of each run, and each end until the last of them starts.
std::vector<std::optional<Time>> estimate_starts(const SchedulingPolicy& policy,
                                                 const DeviceAllocator& allocator,
                                                 const Accounts& accounts, WaitingList& waiting,
                                                 AllocatedRuns& allocated_runs, Time now);

}  // namespace lockstep::sched
