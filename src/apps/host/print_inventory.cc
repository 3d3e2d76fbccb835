#include <cstdlib>
#include <filesystem>

#include "apps/cli/exit_codes.h"
#include "apps/cli/terminal.h"
#include "apps/daemon/own_daemon.h"
#include "apps/host/host_actions.h"
#include "apps/run/origin.h"
#include "platform/host_service/health.h"
#include "platform/host_service/inventory.h"
#include "text/convert.h"
#include "text/json.h"

namespace lockstep::cli {
namespace {

namespace fs = std::filesystem;

Result<api::HostReport> report_of_this_machine() {
  const auto sources = own_inventory_sources(TRY(find_home()).folder);
  api::HostReport report{TRY(host_service::take_inventory(sources, SystemClock())), {}};
  report.problems = host_service::check_health(report.inventory);
  return report;
}

std::string or_unknown(const std::optional<Bytes>& bytes) {
  return bytes ? text(*bytes) : "unknown";
}

std::string or_none(const std::vector<std::string>& words) {
  return words.empty() ? "none" : joined(words, ", ");
}

std::string devices_text(const api::HostInventory& host) {
  const bool gpus = !host.devices.empty() && host.devices[0].kind == map::DeviceKind::gpu;
  if (!gpus) return format("{} cores, no GPU", host.devices.size());
  std::string lines = format("{} GPUs, driver {}", host.devices.size(),
                             host.driver.empty() ? "unknown" : host.driver);
  for (const api::HostDevice& device : host.devices)
    lines += format("\n               {}  {}  {}", device.number, or_unknown(device.memory),
                    device.uuid.empty() ? "UUID unknown" : device.uuid);
  return lines;
}

std::string interface_text(const api::HostInterface& one) {
  return format("\n  network      {}  {}  {}{}", one.name,
                one.speed ? text(*one.speed) : "speed unknown", or_none(one.addresses),
                one.up ? "" : "  down");
}

std::string disk_text(const api::HostDisk& disk) {
  return format("\n  disk         {} free of {} at {}{}", text(disk.free), text(disk.size),
                disk.path, disk.shared.empty() ? "" : format(" ({})", disk.shared));
}

}  // namespace

host_service::InventorySources own_inventory_sources(const fs::path& folder) {
  host_service::InventorySources sources{.gpus = {},
                                         .folders = {folder, fs::temp_directory_path(), "/dev/shm"},
                                         .users = {user_name()},
                                         .version = LOCKSTEP_VERSION};
  if (const char* visible = std::getenv("CUDA_VISIBLE_DEVICES")) sources.gpus.visible = visible;
  return sources;
}

std::string inventory_text(const api::HostReport& report) {
  const api::HostInventory& host = report.inventory;
  std::string lines = format(
      "{}\n  lockstep     {}\n  system       {}, Linux {}, {}\n  machine      {}, boot {}\n"
      "  clock        {}\n  cores        {}\n  memory       {}, {} available\n  devices      {}",
      host.name, host.version, host.distribution.empty() ? "unknown" : host.distribution,
      host.kernel, host.architecture, host.machine, host.boot, text(host.clock), host.cores,
      or_unknown(host.memory), or_unknown(host.memory_available), devices_text(host));
  for (const api::HostInterface& one : host.interfaces) lines += interface_text(one);
  lines += format("\n  libfabric    {}", or_none(host.fabric_providers));
  for (const api::HostDisk& disk : host.disks) lines += disk_text(disk);
  lines += format("\n  users        {}", or_none(host.users));
  for (const api::HostProblem& problem : report.problems)
    lines += format("\n  problem      {}: {}", name_of(problem.kind), problem.detail);
  return lines;
}

Result<int> print_inventory(const HostFlags& flags) {
  if (!flags.hosts.empty())
    return Error{Code::invalid, "host inventory: it describes this machine: leave out the host"};
  const api::HostReport report = TRY(report_of_this_machine());
  print(flags.json ? dump_json(to_json(report), Indent::two) : inventory_text(report));
  return kDone;
}

}  // namespace lockstep::cli
