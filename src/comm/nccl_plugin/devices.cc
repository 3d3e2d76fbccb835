#include "comm/nccl_plugin/devices.h"

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <optional>

#include "base/hash.h"
#include "comm/cost/costs.h"
#include "comm/fabric/address/choose_address.h"
#include "comm/fabric/address/link_speed.h"
#include "comm/fabric/address/network_options.h"
#include "comm/nccl_plugin/ofi_endpoint.h"

namespace lockstep::comm::nccl {
namespace {

namespace fs = std::filesystem;

constexpr auto kApi = FI_VERSION(1, 15);
// The value of LOCKSTEP_FABRIC_PROVIDER for Lockstep's own connections, which every rank has unless
// the user chose: it names no provider to the plugin.
constexpr std::string_view kOwnConnections = "tcp";
constexpr std::uint64_t kTagBits = (std::uint64_t{1} << 60) - 1;  // connection.h has their layout

constexpr auto kFirstWithDmaBuf = FI_VERSION(1, 20);

InfoPtr make_hints(const std::string& provider, std::uint64_t further_capabilities = 0) {
  InfoPtr hints(libfabric().dupinfo(nullptr));
  if (!hints) return hints;
  hints->caps = FI_TAGGED | further_capabilities;
  hints->mode = FI_CONTEXT | FI_CONTEXT2;
  hints->ep_attr->type = FI_EP_RDM;
  hints->domain_attr->threading = FI_THREAD_DOMAIN;
  hints->domain_attr->mr_mode = FI_MR_LOCAL | FI_MR_ALLOCATED | FI_MR_VIRT_ADDR | FI_MR_PROV_KEY;
  if ((further_capabilities & FI_HMEM) != 0) hints->domain_attr->mr_mode |= FI_MR_HMEM;
  if (!provider.empty()) hints->fabric_attr->prov_name = ::strdup(provider.c_str());
  return hints;
}

bool has_enough_tag_bits(const fi_info& info) {
  const auto format = info.ep_attr->mem_tag_format;
  return format == 0 || format > kTagBits >> 1;
}

bool is_ip(const fi_info& info) {
  return info.addr_format == FI_SOCKADDR_IN || info.addr_format == FI_SOCKADDR_IN6;
}

std::string pci_path_of(const fi_info& info, const std::string& interface) {
  std::error_code failed;
  fs::path folder = fs::path("/sys/class/net") / interface / "device";
  if (info.nic != nullptr && info.nic->bus_attr != nullptr &&
      info.nic->bus_attr->bus_type == FI_BUS_PCI) {
    const auto& pci = info.nic->bus_attr->attr.pci;
    folder = format("/sys/bus/pci/devices/{:04x}:{:02x}:{:02x}.{:x}", pci.domain_id, pci.bus_id,
                    pci.device_id, pci.function_id);
  }
  const auto real = fs::canonical(folder, failed);
  return failed ? std::string() : real.string();
}

// Between hosts, from the map, if they are of the network that the device uses: the map's are those
// of Lockstep's own provider.
std::optional<LevelCost> cost_of(const Device& device, const Environment& environment) {
  const auto provider = environment.find("LOCKSTEP_FABRIC_PROVIDER");
  const std::string own =
      provider == environment.end() ? std::string(kOwnConnections) : provider->second;
  if (&quirks_of(own) != device.quirks || device.quirks->within_host_only) return std::nullopt;
  const auto costs = costs_from_environment(environment);
  if (!costs || !*costs) return std::nullopt;
  return (*costs)->between_hosts;
}

int speed_of(const fi_info& info, const std::string& interface) {
  if (info.nic != nullptr && info.nic->link_attr != nullptr && info.nic->link_attr->speed > 0)
    return static_cast<int>(info.nic->link_attr->speed / 1'000'000);
  if (const auto speed = link_speed(interface))
    return static_cast<int>(speed->count() * 8 / 1'000'000);
  return 0;
}

// The table has the values that neither the NIC nor the map tells.
void set_costs(Device& device, const Environment& environment) {
  device.latency = device.quirks->latency;
  const auto cost = cost_of(device, environment);
  if (cost && cost->latency > 0) device.latency = static_cast<float>(cost->latency * 1e6);
  if (device.speed == 0 && cost && cost->per_byte > 0)
    device.speed = static_cast<int>(8 / cost->per_byte / 1e6);
  if (device.speed == 0) device.speed = device.quirks->speed;
}

Device make_device(const fi_info& info, const Environment& environment) {
  Device device;
  device.info.reset(libfabric().dupinfo(&info));
  device.provider = info.fabric_attr->prov_name;
  device.quirks = &quirks_of(device.provider);
  device.name = info.domain_attr->name;
  device.pci_path = pci_path_of(info, device.name);
  device.speed = speed_of(info, device.name);
  set_costs(device, environment);
  device.guid = fnv1a(device.pci_path.empty() ? device.name : device.pci_path);
  device.message_limit = info.ep_attr->max_msg_size;
  if (device.quirks->message_limit != 0)
    device.message_limit = std::min(device.message_limit, device.quirks->message_limit);
  return device;
}

struct Wanted {
  std::string provider;                 // empty: the preferred one
  std::optional<InterfaceAddress> own;  // if the user chose an interface
};

Result<Wanted> wanted_from(const Environment& environment) {
  Wanted wanted;
  const auto options = TRY(network_options_from_environment(environment));
  if (options.provider != kOwnConnections) wanted.provider = options.provider;
  if (!options.interface.empty() || !options.address.empty())
    wanted.own = TRY(choose_address(options));
  return wanted;
}

bool is_wanted(const fi_info& info, const Wanted& wanted) {
  if (!has_enough_tag_bits(info)) return false;
  if (wanted.provider.empty() && quirks_of(info.fabric_attr->prov_name).within_host_only)
    return false;
  return !wanted.own || !is_ip(info) || wanted.own->interface == info.domain_attr->name;
}

// One for each device of the preferred provider; libfabric lists a device once for each of its
// addresses, the best first.
std::vector<const fi_info*> select(const fi_info* all, const Wanted& wanted) {
  std::vector<const fi_info*> candidates;
  for (const auto* one = all; one != nullptr; one = one->next)
    if (is_wanted(*one, wanted)) candidates.push_back(one);
  const auto rank = [](const fi_info* one) {
    return preference(one->fabric_attr->prov_name) * 2 + (one->addr_format == FI_SOCKADDR_IN6);
  };
  std::ranges::stable_sort(candidates, {}, rank);
  std::vector<const fi_info*> selected;
  const auto is_new = [&](const fi_info* one) {
    return std::ranges::none_of(selected, [&](const fi_info* other) {
      return std::string_view(other->domain_attr->name) == one->domain_attr->name;
    });
  };
  for (const auto* one : candidates) {
    const std::string_view provider = one->fabric_attr->prov_name;
    if (provider == candidates.front()->fabric_attr->prov_name && is_new(one))
      selected.push_back(one);
  }
  return selected;
}

// Opens the device once more with FI_HMEM, and FI_RMA for flushes. The driver and the NIC say only
// when an endpoint that may not copy is open if they can do it.
void add_gpu_memory(Device& device) {
  if (!device.quirks->takes_gpu_memory || libfabric().version() < kFirstWithDmaBuf) return;
  const auto hints = make_hints(device.provider, FI_HMEM | FI_RMA);
  if (!hints) return;
  hints->domain_attr->name = ::strdup(device.name.c_str());
  fi_info* found = nullptr;
  if (libfabric().getinfo(kApi, nullptr, nullptr, 0, hints.get(), &found) != 0) return;
  Device capable;
  capable.info.reset(libfabric().dupinfo(found));
  const InfoPtr owner(found);
  capable.quirks = device.quirks;
  capable.provider = device.provider;
  capable.takes_gpu_memory = true;
  if (!open_endpoint(capable)) return;
  device.info = std::move(capable.info);
  device.takes_gpu_memory = true;
}

bool is_loopback(const Device& device) { return device.name == "lo"; }

}  // namespace

Result<std::vector<Device>> find_devices(const Environment& environment) {
  TRY(load_libfabric());
  const auto wanted = TRY(wanted_from(environment));
  const auto hints = make_hints(wanted.provider);
  if (!hints) return Error{Code::exhausted, "no memory for libfabric's hints"};
  fi_info* found = nullptr;
  const int status = libfabric().getinfo(kApi, nullptr, nullptr, 0, hints.get(), &found);
  const InfoPtr owner(found);
  std::vector<Device> devices;
  for (const auto* one : select(found, wanted)) devices.push_back(make_device(*one, environment));
  const bool only_loopback = std::ranges::all_of(devices, is_loopback);
  if (!only_loopback && !wanted.own) std::erase_if(devices, is_loopback);
  for (auto& device : devices) add_gpu_memory(device);
  if (!devices.empty()) return devices;
  return ofi_error(format("no network device for libfabric's provider '{}' (see `fi_info`, and "
                          "LOCKSTEP_FABRIC_PROVIDER and LOCKSTEP_INTERFACE)",
                          wanted.provider.empty() ? "any" : wanted.provider),
                   status == 0 ? -FI_ENODATA : status);
}

}  // namespace lockstep::comm::nccl
