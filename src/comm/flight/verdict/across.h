// Across groups: a rank that is late in one group may itself wait in another one, so that the
// verdict on a single group names a rank that only passes the delay on.
#pragma once

#include <string>
#include <vector>

#include "comm/flight/verdict/group.h"

namespace lockstep {

// The ranks at the ends of all chains of waits, ascending: those that hold up others, and wait for
// no rank in any group.
std::vector<int> ranks_to_blame(const std::vector<FlightGroup>& groups);

// Where several groups are held up; else empty, as the group's own verdict says it.
//   rank 2 holds up 3 groups; its process 4711 on vm-1 is stopped (SIGSTOP or a debugger)
std::string holdup_across(const std::vector<FlightGroup>& groups);

}  // namespace lockstep
