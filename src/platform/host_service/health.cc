#include "platform/host_service/health.h"

#include <algorithm>
#include <string>

#include "base/format.h"

namespace lockstep::host_service {
namespace {

using api::HostProblemKind;
using Problems = std::vector<api::HostProblem>;

void check_disks(const api::HostInventory& host, const HealthLimits& limits, Problems& problems) {
  for (const api::HostDisk& disk : host.disks) {
    const Bytes least = std::min(limits.disk_free_min, disk.size / 10);
    if (disk.free < least)
      problems.push_back({HostProblemKind::disk_full,
                          format("{} has {} free of {}: make room there (at least {})", disk.path,
                                 text(disk.free), text(disk.size), text(least))});
  }
}

void check_memory(const api::HostInventory& host, const HealthLimits& limits, Problems& problems) {
  if (!host.memory || !host.memory_available) return;
  if (*host.memory_available >= *host.memory / limits.memory_shares) return;
  problems.push_back({HostProblemKind::memory_low,
                      format("{} of {} of main memory are available: end what holds the rest",
                             text(*host.memory_available), text(*host.memory))});
}

void check_clock(const api::HostInventory& host, const ClockReference& reference,
                 const HealthLimits& limits, Problems& problems) {
  const Duration offset = clock_offset(host.clock, reference);
  const bool behind = offset < Duration(0);
  const Duration size = behind ? -offset : offset;
  if (size <= limits.clock_offset_max) return;
  problems.push_back(
      {HostProblemKind::clock_wrong,
       format("its clock is {} {}: synchronise it, such as with chrony or systemd-timesyncd",
              text(size), behind ? "behind" : "ahead")});
}

}  // namespace

Duration clock_offset(Time clock, const ClockReference& reference) {
  if (clock < reference.earliest) return clock - reference.earliest;
  if (clock > reference.latest) return clock - reference.latest;
  return Duration(0);
}

Problems check_health(const api::HostInventory& inventory,
                      const std::optional<ClockReference>& reference, const HealthLimits& limits) {
  Problems problems;
  check_disks(inventory, limits, problems);
  check_memory(inventory, limits, problems);
  if (reference) check_clock(inventory, *reference, limits, problems);
  for (const std::string& fault : inventory.device_faults)
    problems.push_back({HostProblemKind::device_failed, fault});
  return problems;
}

}  // namespace lockstep::host_service
