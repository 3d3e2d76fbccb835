#include "platform/core/sched/host_table.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "map/query.h"

namespace lockstep {
namespace {

constexpr Bytes kUnbounded{std::numeric_limits<std::int64_t>::max()};

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
      traits.device_memory = std::min(traits.device_memory, device.memory.value_or(kUnbounded));
    }
  return traits;
}

}  // namespace

HostTable::HostTable(const Map& map) {
  std::size_t all = 0;
  for (const Pod& pod : map.pods)
    for (const Leaf& leaf : pod.leaves) all += leaf.hosts.size();
  names.reserve(all);
  capacity.reserve(all);
  traits.reserve(all);
  pod_of.reserve(all);
  by_name_.reserve(all);
  for (const Pod& pod : map.pods) {
    pods.push_back({host_count(), 0});
    for (const Leaf& leaf : pod.leaves)
      for (const Host& host : leaf.hosts) add(host);
    pods.back().end = host_count();
  }
}

// To the last pod.
void HostTable::add(const Host& host) {
  by_name_.add(hash_of(host.id), host_count());
  names.push_back(host.id);
  capacity.push_back(static_cast<int>(device_count(host)));
  traits.push_back(traits_of(host));
  pod_of.push_back(pod_count() - 1);
  most_devices = std::max(most_devices, capacity.back());
  devices += capacity.back();
}

std::optional<int> HostTable::find(std::string_view host) const {
  return by_name_.find(hash_of(host), [&](int slot) { return names[as_index(slot)] == host; });
}

}  // namespace lockstep
