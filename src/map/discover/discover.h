// Discovers this machine with hwloc: host, NUMA nodes, GPUs or cores, memory.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "base/result.h"
#include "map/map.h"

namespace lockstep::map {

// A map of one host. Its devices are its NVIDIA GPUs (numbered by PCI address) or, without any, the
// cores that this process may use (affinity and cgroup limits count; two threads of a core are one
// core). Islands are NUMA nodes. The id is the host's name and the start of its boot id: it changes
// with a reboot, because a reboot loses the contents of shared memory. Links are unknown: they are
// not measured.
Result<ClusterMap> discover_local();

// The processors of this machine that belong to these of its devices, numbered as in
// discover_local(): those of the cores, or those on the GPUs' NUMA nodes. They are numbered as in
// sched_setaffinity, ascending, and only those that this process may use. Code::not_found if it has
// no such device.
Result<std::vector<int>> processors_of(DeviceKind kind, std::span<const int> devices);

// The id of this boot of the machine, as the kernel gives it; equal in all its containers.
Result<std::string> boot_id();

}  // namespace lockstep::map
