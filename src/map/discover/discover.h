// What this machine really is, by hwloc: host, NUMA nodes, GPUs or cores, memory.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "base/result.h"
#include "map/map.h"

namespace lockstep {

// A map of one host. Its devices are its NVIDIA GPUs (numbered by PCI address) or, where it has
// none, the cores that this process may use (affinity and cgroup limits count; two threads of a
// core are one core). Islands are NUMA nodes. The id is the host's name and the start of its boot
// id: another one after a reboot, since what lies in shared memory is then gone. Links are unknown:
// nobody measured them.
Result<Map> discover_local();

// Which processors of this machine belong to these devices of it, numbered as in discover_local():
// those of the cores, or those on the GPUs' NUMA nodes. As sched_setaffinity counts them,
// ascending, and only those that this process may use. Code::not_found when it has no such device.
Result<std::vector<int>> processors_of(DeviceKind kind, std::span<const int> devices);

// The id of this boot of the machine, as the kernel gives it; equal in all its containers.
Result<std::string> boot_id();

}  // namespace lockstep
