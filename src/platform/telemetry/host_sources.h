// The sources of a host: processors, memory, pressure, network, disks, the power of processors, and
// the control group of this process.
#pragma once

#include <filesystem>
#include <memory>

#include "platform/telemetry/source.h"

namespace lockstep::telemetry {

// /proc/stat and /proc/loadavg.
std::unique_ptr<Source> cpu_source(const std::filesystem::path& root);
// /proc/meminfo.
std::unique_ptr<Source> memory_source(const std::filesystem::path& root);
// /proc/pressure: the share of the time in which tasks waited.
std::unique_ptr<Source> pressure_source(const std::filesystem::path& root);
// /proc/net/dev, and the counters of InfiniBand, whose traffic is not in it.
std::unique_ptr<Source> network_source(const std::filesystem::path& root);
// /proc/diskstats.
std::unique_ptr<Source> disk_source(const std::filesystem::path& root);
// /sys/class/powercap: RAPL. Linux lets only root read it.
std::unique_ptr<Source> power_source(const std::filesystem::path& root);
// The control group of version 2 that this process is in, with the ranks that it starts.
std::unique_ptr<Source> cgroup_source(const std::filesystem::path& root);

// All of these.
Sources host_sources(const std::filesystem::path& root = "/");

}  // namespace lockstep::telemetry
