// Chooses the hosts of a gang from the free capacity. Pure arithmetic.
//
// first: the lowest pod that can hold the gang, and in it the lowest hosts that fit.
//
// best: keeps large blocks of free devices for large runs.
//   One host: the one with the fewest free devices; then in the pod with the fewest empty hosts.
//   A gang: of the pods that fit, the one with the fewest hosts to choose from; then with the
//   fewest empty hosts. In it, the hosts with the fewest free devices.
//   The remainder: of the pod's other hosts that fit, the one with the fewest free devices.
// fragmentation: as best, but first by the smallest growth of the devices that are of no use to
// runs of usual sizes (sched/fragmentation.h): in the pod, then on the host.
//
// Ties are resolved by the map's order.
//
// A gang larger than any pod is spread over the fewest pods that can hold it now, as evenly as they
// allow.
#pragma once

#include <vector>

#include "platform/core/sched/capacity/free_capacity.h"
#include "platform/core/sched/policy.h"

namespace lockstep::sched {

// The hosts for the gang, in the map's order, followed by the host of the remainder; empty if the
// gang has to wait.
std::vector<int> choose_hosts(const FreeCapacity& capacity, const Gang& gang, Fit fit);

}  // namespace lockstep::sched
