// Why runs wait, for whom, and until when.
#pragma once

#include <optional>
#include <vector>

#include "base/result.h"
#include "platform/core/sched/holders.h"
#include "platform/core/sched/waiting_list.h"

namespace lockstep {

// When a head starts, and by whose end (Reservation).
struct HeadStart {
  RunId run;
  Time start{};
  std::optional<RunId> blocker;
};

// For each run that waits, in the order in which they stand, after a decision at `now`. Only heads
// and runs that a limit keeps have a start: starts_in_order() has the others'. first: what is known
// already of the first head.
std::vector<WaitingRun> explain(const SchedulingPolicy& policy, const Floor& floor,
                                const Accounts& accounts, WaitingList& waiting, Holders& holders,
                                Time now, const std::optional<HeadStart>& first);

// That the map is too small for the shape, what it has, and the nearest that would fit.
Error too_large(const HostTable& table, const Shape& shape);

}  // namespace lockstep
