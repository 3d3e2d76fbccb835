// When runs that wait start if they start in the order in which they stand, none passes another,
// and each runs as long as it may: an estimate. Backfill lets most start earlier and some later.
#pragma once

#include <optional>
#include <vector>

#include "platform/core/sched/accounts.h"
#include "platform/core/sched/floor.h"
#include "platform/core/sched/holders.h"
#include "platform/core/sched/waiting_list.h"

namespace lockstep {

// By the order in which they stand, after a decision at `now`; nothing for a run that no host can
// take as things are, and for one that a limit keeps.
//
// Cost: the placement of each run, and each end until the last of them starts.
std::vector<std::optional<Time>> starts_in_order(const SchedulingPolicy& policy, const Floor& floor,
                                                 const Accounts& accounts, WaitingList& waiting,
                                                 Holders& holders, Time now);

}  // namespace lockstep
