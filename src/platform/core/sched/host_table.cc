#include "platform/core/sched/host_table.h"

#include <algorithm>
#include <limits>

#include "map/query.h"

namespace lockstep {
namespace {

constexpr Bytes kUnbounded{std::numeric_limits<std::int64_t>::max()};

HostTable::Traits traits_of(const Host& host) {
  HostTable::Traits traits{.cores = host.cores.value_or(std::numeric_limits<int>::max()),
                           .memory = host.memory.value_or(kUnbounded),
                           .kind = std::nullopt,
                           .device_memory = kUnbounded};
  const auto all = devices(host);
  if (!all.empty()) traits.kind = all.front()->kind;
  for (const Device* device : all) {
    if (device->kind != traits.kind) traits.kind.reset();
    traits.device_memory = std::min(traits.device_memory, device->memory.value_or(kUnbounded));
  }
  return traits;
}

}  // namespace

HostTable::HostTable(const Map& map) {
  for (const Pod& pod : map.pods) {
    PodRange& range = pods.emplace_back(PodRange{host_count(), 0});
    for (const Host* host : hosts(pod)) {
      names.push_back(host->id);
      capacity.push_back(static_cast<int>(device_count(*host)));
      traits.push_back(traits_of(*host));
      pod_of.push_back(pod_count() - 1);
      most_devices = std::max(most_devices, capacity.back());
      devices += capacity.back();
    }
    range.end = host_count();
  }
  for (int host = 0; host < host_count(); ++host)
    by_name_.add(hash_of(names[as_index(host)]), host);
}

std::optional<int> HostTable::find(std::string_view host) const {
  return by_name_.find(hash_of(host), [&](int slot) { return names[as_index(slot)] == host; });
}

}  // namespace lockstep
