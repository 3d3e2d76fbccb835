#include "platform/core/sched/host_table.h"

#include <algorithm>
#include <limits>
#include <numeric>

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
  by_name_.resize(names.size());
  std::iota(by_name_.begin(), by_name_.end(), 0);
  const auto name_of_host = [&](int host) -> std::string_view { return names[as_index(host)]; };
  std::ranges::sort(by_name_, {}, name_of_host);
}

std::optional<int> HostTable::find(std::string_view host) const {
  const auto name_of_host = [&](int i) -> std::string_view { return names[as_index(i)]; };
  const auto found = std::ranges::lower_bound(by_name_, host, {}, name_of_host);
  if (found == by_name_.end() || name_of_host(*found) != host) return std::nullopt;
  return *found;
}

}  // namespace lockstep
