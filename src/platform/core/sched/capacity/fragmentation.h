// Fragmentation: how many free devices are of no use to runs of the usual sizes (FGD: Weng et al.,
// "Beware of fragmentation", ATC 2023). A run is placed where fragmentation grows least, or shrinks
// most.
//
// Sizes: 1, 2, 4, ... devices on one host; 1, 2, 4, ... whole hosts in one pod; all equally likely.
//
// host: for each size m, the free devices that are left when as many runs of size m as fit are
// placed on it. With 6 free: none for sizes 1 and 2, 2 for size 4, 6 for size 8. pod: for each
// number k of hosts, the devices of empty hosts that are left in the same way.
//
// Example: a run of one device, hosts of eight with 3, 2 and 8 free. On the first host, sizes 4 and
// 8 lose 3 devices each and size 2 loses one before; afterwards sizes 4 and 8 lose 2 each: it
// shrinks by 3. On the second it shrinks by one, on the third it grows by 11.
#pragma once

#include "platform/core/sched/capacity/free_capacity.h"

namespace lockstep::sched {

// The growth when `devices` of a host's `free` devices are allocated; `most` is the largest number
// of devices on a host.
int host_growth(int free, int devices, int most);
// The growth, in hosts, when `hosts` of a pod's `empty` hosts are no longer empty; the pod has
// `all`.
int pod_growth(int empty, int hosts, int all);

}  // namespace lockstep::sched
