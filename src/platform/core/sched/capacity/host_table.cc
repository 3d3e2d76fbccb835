#include "platform/core/sched/capacity/host_table.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "map/query.h"
#include "map/taints.h"

namespace lockstep::sched {
namespace {

constexpr Bytes kUnbounded{std::numeric_limits<std::int64_t>::max()};

// A core has no memory of its own unless the map gives it some; an unknown memory of a GPU is
// unbounded.
Bytes memory_of(const map::Device& device) {
  return device.memory.value_or(device.kind == map::DeviceKind::core ? Bytes(0) : kUnbounded);
}

HostTable::Traits traits_of(const map::Host& host) {
  HostTable::Traits traits{.cores = host.cores.value_or(std::numeric_limits<int>::max()),
                           .memory = host.memory.value_or(kUnbounded),
                           .kind = std::nullopt,
                           .device_memory = kUnbounded,
                           .labels = host.labels,
                           .has_taints = map::has_taints(host.labels)};
  bool first = true;
  for (const map::Island& island : host.islands)
    for (const map::Device& device : island.devices) {
      if (std::exchange(first, false)) traits.kind = device.kind;
      if (device.kind != traits.kind) traits.kind.reset();
      traits.device_memory = std::min(traits.device_memory, memory_of(device));
    }
  return traits;
}

}  // namespace

HostTable::HostTable(const map::ClusterMap& map, MapGrowth map_growth)
    : HostTable(map, [](const map::Pod&) { return true; }, map_growth) {}

HostTable::HostTable(const map::ClusterMap& map, const CountsPod& counts, MapGrowth map_growth)
    : growth(map_growth) {
  const std::string* engine = nullptr;
  for (const map::Pod& pod : map.pods) {
    if (!counts(pod)) continue;
    spreads = spreads && (!engine || *engine == pod.engine);
    engine = &pod.engine;
    pods.push_back({host_count(), host_count()});
    for (const map::Leaf& leaf : pod.leaves)
      for (const map::Host& host : leaf.hosts) add(host);
    pods.back().end = host_count();
  }
}

// Adds the host to the last pod.
void HostTable::add(const map::Host& host) {
  by_name_.emplace(host.id, host_count());
  names.push_back(host.id);
  capacity.push_back(static_cast<int>(map::device_count(host)));
  traits.push_back(traits_of(host));
  pod_of.push_back(pod_count() - 1);
  devices_per_host_max = std::max(devices_per_host_max, capacity.back());
  devices += capacity.back();
}

std::optional<int> HostTable::find(std::string_view host) const {
  const auto found = by_name_.find(host);
  return found == by_name_.end() ? std::nullopt : std::optional(found->second);
}

std::set<map::DeviceKind> HostTable::kinds() const {
  std::set<map::DeviceKind> kinds;
  for (const Traits& one : traits)
    if (one.kind) kinds.insert(*one.kind);
  return kinds;
}

HostTable engine_host_table(HostTable table) {
  table.mixes_kinds = false;
  return table;
}

}  // namespace lockstep::sched
