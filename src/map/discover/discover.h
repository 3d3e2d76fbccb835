// Discovers this machine with hwloc: host, NUMA nodes, GPUs or cores, memory.
#pragma once

#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"
#include "map/discover/nvml.h"
#include "map/map.h"

namespace lockstep::map {

// Where the GPUs are found; tests have others.
struct GpuSources {
  std::filesystem::path root = "/";                   // has the driver's files
  std::string nvml = kNvmlLibrary;                    // as for dlopen()
  std::optional<std::string> visible = std::nullopt;  // CUDA_VISIBLE_DEVICES; nullopt: not set
};

// A map of one host. Its devices are its NVIDIA GPUs (numbered by PCI address) or, without any, the
// cores that this process may use (affinity and cgroup limits count; two threads of a core are one
// core). A warning is logged for each GPU that is left out (map/discover/offered_gpus.h). Islands
// are GPUs joined by NVLink, and NUMA nodes for all other devices. The id is the host's name and
// the start of its boot id: it changes with a reboot, because a reboot loses the contents of shared
// memory. Links are unknown: they are not measured.
Result<ClusterMap> discover_local(const GpuSources& sources);
// With the CUDA_VISIBLE_DEVICES of this process.
Result<ClusterMap> discover_local();

// The processors of this machine that belong to these of its devices, numbered as in
// discover_local(): those of the cores, or those on the GPUs' NUMA nodes. They are numbered as in
// sched_setaffinity, ascending, and only those that this process may use. Code::not_found if it has
// no such device.
Result<std::vector<int>> processors_of(DeviceKind kind, std::span<const int> devices);

// The same for each of several sets of devices: the machine is described once.
Result<std::vector<std::vector<int>>> processors_of_each(DeviceKind kind,
                                                         const std::vector<std::vector<int>>& sets);

// The id of this boot of the machine, as the kernel gives it; equal in all its containers.
Result<std::string> boot_id();

}  // namespace lockstep::map
