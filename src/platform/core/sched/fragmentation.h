// Fragmentation: how many free devices are of no use to runs of the sizes that there are (FGD: Weng
// et al., "Beware of fragmentation", ATC 2023). A run goes where it grows least, or shrinks most.
//
// Sizes: 1, 2, 4, ... devices on one host; 1, 2, 4, ... whole hosts in one pod; each as likely.
//
//   host  for each size m the free devices that are left when as many runs of m as fit are on it:
//         with 6 free none for 1 and 2, 2 for 4, 6 for 8
//   pod   for each number k of hosts the devices of its empty hosts that are left likewise
//
// Example: a run of one device, hosts of eight with 3, 2 and 8 free. On the first 3 are lost to
// sizes 4 and 8 before and one to size 2, after it 2 and none: it shrinks by 3. On the second it
// shrinks by one, on the third it grows by 11.
#pragma once

#include "platform/core/sched/room.h"

namespace lockstep {

// By how much it grows when `devices` of a host's `free` ones are taken; of at most `most` on a
// host.
int host_growth(int free, int devices, int most);
// When `hosts` of a pod's `empty` ones are no longer empty; the pod has `all`. In hosts.
int pod_growth(int empty, int hosts, int all);

}  // namespace lockstep
