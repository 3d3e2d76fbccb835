#include "platform/core/sched/capacity/host_table.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "map/query.h"

namespace lockstep {
namespace {

constexpr Bytes kUnbounded{std::numeric_limits<std::int64_t>::max()};

// A core has no memory of its own unless the map gives it some; an unknown memory of a GPU is
// unbounded.
Bytes memory_of(const Device& device) {
  return device.memory.value_or(device.kind == DeviceKind::core ? Bytes(0) : kUnbounded);
}

HostTable::Traits traits_of(const Host& host) {
  HostTable::Traits traits{.cores = host.cores.value_or(std::numeric_limits<int>::max()),
                           .memory = host.memory.value_or(kUnbounded),
                           .kind = std::nullopt,
                           .device_memory = kUnbounded};
  bool first = true;
  for (const Island& island : host.islands)
    for (const Device& device : island.devices) {
      if (std::exchange(first, false)) traits.kind = device.kind;
      if (device.kind != traits.kind) traits.kind.reset();
      traits.device_memory = std::min(traits.device_memory, memory_of(device));
    }
  return traits;
}

constexpr std::size_t kLine = 64;  // bytes of a cache line

// The data of a host is in three places in memory.
void prefetch_hosts(const std::vector<const Host*>& hosts, std::size_t i) {
  constexpr std::size_t kNear = 6, kFar = 12, kFarthest = 18;
  if (i + kFarthest >= hosts.size()) return;
  const auto* far = reinterpret_cast<const char*>(hosts[i + kFarthest]);
  for (std::size_t at = 0; at < sizeof(Host); at += kLine) __builtin_prefetch(far + at);
  __builtin_prefetch(hosts[i + kFar]->islands.data());
  constexpr std::size_t kOfALine = std::max<std::size_t>(1, kLine / sizeof(Device));
  for (const Island& island : hosts[i + kNear]->islands)
    for (std::size_t d = 0; d < island.devices.size(); d += kOfALine)
      __builtin_prefetch(&island.devices[d]);
}

// In the map's order.
std::vector<const Host*> all_hosts(const ClusterMap& map) {
  std::size_t count = 0;
  for (const Pod& pod : map.pods)
    for (const Leaf& leaf : pod.leaves) count += leaf.hosts.size();
  std::vector<const Host*> all;
  all.reserve(count);
  for (const Pod& pod : map.pods)
    for (const Leaf& leaf : pod.leaves)
      for (const Host& host : leaf.hosts) all.push_back(&host);
  return all;
}

}  // namespace

HostTable::HostTable(const ClusterMap& map) {
  const auto all = all_hosts(map);
  names.reserve(all.size());
  capacity.reserve(all.size());
  traits.reserve(all.size());
  pod_of.reserve(all.size());
  by_name_.reserve(all.size());
  for (const Pod& pod : map.pods) {
    std::size_t count = 0;
    for (const Leaf& leaf : pod.leaves) count += leaf.hosts.size();
    pods.push_back({host_count(), host_count() + static_cast<int>(count)});
    for (; count > 0; --count) {
      const auto next = as_index(host_count());
      prefetch_hosts(all, next);
      add(*all[next]);
    }
  }
}

// Adds the host to the last pod.
void HostTable::add(const Host& host) {
  by_name_.add(hash_of(host.id), host_count());
  names.push_back(host.id);
  capacity.push_back(static_cast<int>(device_count(host)));
  traits.push_back(traits_of(host));
  pod_of.push_back(pod_count() - 1);
  devices_per_host_max = std::max(devices_per_host_max, capacity.back());
  devices += capacity.back();
}

std::optional<int> HostTable::find(std::string_view host) const {
  return by_name_.find(hash_of(host), [&](int slot) { return names[as_index(slot)] == host; });
}

}  // namespace lockstep
