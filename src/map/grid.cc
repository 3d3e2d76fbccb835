#include "map/grid.h"

#include <algorithm>
#include <charconv>
#include <cstdint>
#include <optional>

#include "base/format.h"
#include "map/query.h"

namespace lockstep::map {
namespace {

std::optional<int> parse_count(std::string_view input, int most) {
  int count = 0;
  auto [end, error] = std::from_chars(input.data(), input.data() + input.size(), count);
  if (error != std::errc() || end != input.data() + input.size()) return std::nullopt;
  if (count < 1 || count > most) return std::nullopt;
  return count;
}

// The devices that are assigned to the presented hosts: one of each GPU or core of the machine.
Result<std::vector<Device>> devices_to_deal(const Host& machine, int wanted) {
  std::vector<Device> gpus;
  int cores = 0;
  for (const Device* device : devices(machine)) {
    if (device->kind == DeviceKind::gpu) gpus.push_back(*device);
    if (device->kind == DeviceKind::core) ++cores;
  }
  if (static_cast<int>(gpus.size()) >= wanted) return gpus;
  cores = machine.cores.value_or(cores);
  if (cores < 1)
    return Error{Code::invalid, format("the host '{}' has {} GPUs for {} devices, and how many "
                                       "cores it has is unknown; ask for fewer devices",
                                       machine.id, gpus.size(), wanted)};
  std::vector<Device> deck;
  for (int i = 0; i < cores; ++i) deck.push_back({DeviceKind::core, i, std::nullopt, false});
  return deck;
}

}  // namespace

Result<HostGrid> parse_host_grid(std::string_view input, const GridLimits& limits) {
  std::size_t cross = input.find('x');
  std::optional<int> hosts, devices;
  if (cross != input.npos) {
    hosts = parse_count(input.substr(0, cross), limits.each);
    devices = parse_count(input.substr(cross + 1), limits.each);
  }
  if (!hosts || !devices)
    return Error{Code::invalid,
                 format("'{}' is not HOSTSxDEVICES; write 2x2 for two hosts with two "
                        "devices each (1 to {})",
                        input, limits.each)};
  const std::int64_t all = std::int64_t{*hosts} * *devices;
  if (all > limits.devices)
    return Error{Code::invalid,
                 format("'{}' is {} devices; at most {} are possible", input, all, limits.devices)};
  return HostGrid{*hosts, *devices};
}

Result<ClusterMap> split_host(const ClusterMap& one_host, const HostGrid& grid) {
  auto machines = hosts(one_host);
  if (machines.size() != 1)
    return Error{Code::invalid,
                 format("only a map of one host can be presented as several; this one "
                        "has {}",
                        machines.size())};
  const Host& machine = *machines.front();
  const int wanted = grid.hosts * grid.devices;
  const std::vector<Device> deck = TRY(devices_to_deal(machine, wanted));
  const int deck_size = static_cast<int>(deck.size());

  Leaf leaf{"leaf-0", {}};
  int dealt = 0;
  for (int i = 0; i < grid.hosts; ++i) {
    Host host;
    host.id = host.name = format("{}-{}", name_of(machine), i);
    host.address = address_of(machine);
    // Equal parts, and at least one core: hosts of a small machine share cores as devices do.
    if (machine.cores) host.cores = std::max(1, *machine.cores / grid.hosts);
    if (machine.memory) host.memory = Bytes(machine.memory->count() / grid.hosts);
    Island& island = host.islands.emplace_back();
    for (int j = 0; j < grid.devices; ++j, ++dealt) {
      int index = dealt % deck_size;
      Device device = deck[static_cast<std::size_t>(index)];
      // True if another of the `wanted` devices uses the same card of the deck.
      device.shared = index + deck_size < wanted || dealt >= deck_size;
      island.devices.push_back(device);
    }
    leaf.hosts.push_back(std::move(host));
  }
  return ClusterMap{one_host.name, {}, {Pod{"pod-0", {}, {std::move(leaf)}}}};
}

}  // namespace lockstep::map
