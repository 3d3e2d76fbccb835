#include "platform/host_service/inventory.h"

#include <algorithm>
#include <charconv>
#include <optional>
#include <string_view>

#include <sys/statvfs.h>
#include <sys/utsname.h>

#include "base/os/files.h"
#include "comm/fabric/address/kernel_network.h"
#include "comm/fabric/address/link_speed.h"
#include "comm/fabric/ofi/providers.h"
#include "map/discover/gpu_faults.h"
#include "platform/host/file_systems.h"
#include "platform/host/machine.h"

namespace lockstep::host_service {
namespace {

namespace fs = std::filesystem;

// "12" of VERSION_ID="12".
std::string value_of(std::string_view content, std::string_view name) {
  for (std::size_t at = 0; at < content.size();) {
    const std::size_t end = std::min(content.find('\n', at), content.size());
    std::string_view line = content.substr(at, end - at);
    at = end + 1;
    if (!line.starts_with(name) || !line.substr(name.size()).starts_with('=')) continue;
    line.remove_prefix(name.size() + 1);
    std::string value(line);
    std::erase(value, '"');
    return value;
  }
  return "";
}

std::string distribution_of(const fs::path& root) {
  const std::string release = read_file(root / "etc/os-release").value_or(std::string());
  const std::string version = value_of(release, "VERSION_ID");
  return value_of(release, "ID") + (version.empty() ? "" : " " + version);
}

// A value of /proc/meminfo, which counts in KiB.
std::optional<Bytes> memory_value(std::string_view meminfo, std::string_view label) {
  const std::size_t at = meminfo.find(label);
  if (at == meminfo.npos) return std::nullopt;
  const std::size_t digits = meminfo.find_first_not_of(' ', at + label.size());
  if (digits == meminfo.npos) return std::nullopt;
  std::int64_t kib = 0;
  const char* const end = meminfo.data() + meminfo.size();
  if (std::from_chars(meminfo.data() + digits, end, kib).ec != std::errc()) return std::nullopt;
  return Bytes(kib * 1024);
}

std::vector<api::HostDevice> devices_of(const map::Host& host) {
  std::vector<api::HostDevice> devices;
  for (const map::Island& island : host.islands)
    for (const map::Device& device : island.devices)
      devices.push_back({device.kind, device.number, device.uuid, device.memory});
  std::ranges::sort(devices, {}, &api::HostDevice::number);
  return devices;
}

std::vector<api::HostInterface> network_interfaces() {
  std::vector<api::HostInterface> found;
  for (const comm::InterfaceAddress& one : comm::KernelNetwork().local_addresses()) {
    if (one.loopback) continue;
    auto known = std::ranges::find(found, one.interface, &api::HostInterface::name);
    if (known == found.end())
      known =
          found.insert(found.end(), {one.interface, one.up, comm::link_speed(one.interface), {}});
    known->addresses.push_back(one.address);
  }
  return found;
}

// The disk of the nearest parent that exists; nullopt if it cannot be asked.
std::optional<api::HostDisk> disk_of(const fs::path& folder) {
  for (fs::path there = folder; !there.empty(); there = there.parent_path()) {
    struct statvfs info{};
    if (::statvfs(there.c_str(), &info) == 0) {
      const auto unit = static_cast<std::int64_t>(info.f_frsize);
      return api::HostDisk{.path = folder.string(),
                           .size = Bytes(static_cast<std::int64_t>(info.f_blocks) * unit),
                           .free = Bytes(static_cast<std::int64_t>(info.f_bavail) * unit),
                           .shared = host::shared_file_system_of(there)};
    }
    if (there == there.parent_path()) break;
  }
  return std::nullopt;
}

std::vector<api::HostDisk> disks_of(const std::vector<fs::path>& folders) {
  std::vector<api::HostDisk> disks;
  for (const fs::path& folder : folders)
    if (auto disk = disk_of(folder)) disks.push_back(*std::move(disk));
  return disks;
}

}  // namespace

Result<api::HostInventory> take_inventory(const InventorySources& sources, const Clock& clock) {
  const map::ClusterMap map = TRY(map::discover_local(sources.gpus));
  const map::Host& hardware = map.pods.front().leaves.front().hosts.front();
  const host::Machine machine = host::this_machine();
  const std::string meminfo = read_file(sources.root / "proc/meminfo").value_or(std::string());
  // hwloc's sum lacks the memory that a virtual machine got after its boot.
  const auto memory = memory_value(meminfo, "MemTotal:");
  struct utsname system{};
  ::uname(&system);
  return api::HostInventory{
      .name = machine.host,
      .machine = machine.id,
      .boot = machine.boot,
      .version = sources.version,
      .architecture = system.machine,
      .distribution = distribution_of(sources.root),
      .kernel = system.release,
      .cores = hardware.cores.value_or(0),
      .memory = memory ? memory : hardware.memory,
      .memory_available = memory_value(meminfo, "MemAvailable:"),
      .devices = devices_of(hardware),
      .device_faults = map::gpu_faults(sources.gpus),
      .driver = map::nvidia_driver_version(sources.gpus.root).value_or(std::string()),
      .interfaces = network_interfaces(),
      .fabric_providers = comm::usable_providers(),
      .users = sources.users,
      .disks = disks_of(sources.folders),
      .clock = clock.now()};
}

}  // namespace lockstep::host_service
