// Why runs wait, for which run, and until when.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "base/result.h"
#include "platform/core/sched/capacity/allocated_runs.h"
#include "platform/core/sched/queue/waiting_list.h"

namespace lockstep::sched {

// When a head starts, and the run whose end allows it (Reservation).
struct ReservedStart {
  model::RunId run;
  Time start{};
  std::optional<model::RunId> blocker;
};

// For each waiting run, in queue order, after a decision at `now`. Only heads and runs that exceed
// a limit have a start; estimate_starts() returns those of the others. `first`: what is known
// already about the first head.
std::vector<WaitingRun> explain_waiting(const SchedulingPolicy& policy,
                                        const DeviceAllocator& allocator, const Accounts& accounts,
                                        WaitingList& waiting, AllocatedRuns& allocated_runs,
                                        Time now, const std::optional<ReservedStart>& first);

// The error for a shape that is too large for the map: what the map has, and the nearest that fits.
// If hosts can join, it is the reason why a run waits.
Error gang_too_large(const HostTable& table, const Shape& shape);
// of_engine: the hosts among which an engine chooses, which are too small as well. Null: none.
Error gang_too_large(const HostTable& table, const HostTable* of_engine, const Shape& shape);

}  // namespace lockstep::sched
