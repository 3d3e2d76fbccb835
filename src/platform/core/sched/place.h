// Where a gang goes: pure arithmetic on the room that there is.
//
// first: the lowest pod that can hold it, and in it the lowest hosts that have room.
//
// best: large holes are kept for those who need them.
//   One host: the one with the fewest free devices; then in the pod with the fewest empty hosts.
//   A gang: of the pods that can hold it the one with the fewest hosts to choose from; then with
//   the fewest empty hosts. In it, the hosts with the fewest free devices.
//   The remainder: of the pod's other hosts with room the one with the fewest free devices.
// fragmentation: as best, but first by how little more devices are of no use to runs of usual sizes
// (sched/fragmentation.h): in the pod, then on the host.
//
// Ties go by the map's order.
//
// A gang larger than any pod goes over as few pods as have room for it now, as evenly as they
// allow.
#pragma once

#include <vector>

#include "platform/core/sched/policy.h"
#include "platform/core/sched/room.h"

namespace lockstep {

// The hosts that the gang takes, in the map's order, and behind them the remainder's; empty if it
// has to wait.
std::vector<int> choose_hosts(const Room& room, const Gang& gang, Fit fit);

}  // namespace lockstep
