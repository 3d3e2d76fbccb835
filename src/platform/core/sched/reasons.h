// Why runs wait, for whom, and until when.
#pragma once

#include <vector>

#include "base/result.h"
#include "platform/core/sched/holders.h"
#include "platform/core/sched/waiting_list.h"

namespace lockstep {

// Of everybody who waits, in the order in which they stand; after a decision that started all who
// could start, at `now`.
std::vector<WaitingRun> explain(const SchedulingPolicy& policy, const Floor& floor,
                                const Accounts& accounts, WaitingList& waiting, Holders& holders,
                                Time now);

// That the map is too small for the shape, what it has, and the nearest that would fit.
Error too_large(const HostTable& table, const Shape& shape);

}  // namespace lockstep
