// Diagnosis across groups. A rank that is late in one group may itself wait in another. The
// diagnosis of a single group then names a rank that only passes the delay on.
#pragma once

#include <string>
#include <vector>

#include "comm/flight/diagnosis/group.h"

namespace lockstep::comm {

// The ranks at the ends of all chains of waits, ascending: other ranks wait for them, and they wait
// for no rank in any group.
std::vector<int> root_cause_ranks(const std::vector<FlightGroup>& groups);

// The description if several groups are stalled; else empty, because the group's own diagnosis has
// it.
//   rank 2 holds up 3 groups; its process 4711 on vm-1 is stopped (SIGSTOP or a debugger)
std::string describe_stall_across_groups(const std::vector<FlightGroup>& groups);

}  // namespace lockstep::comm
