#include "map/query.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "base/format.h"
#include "text/nearest.h"

namespace lockstep::map {
namespace {

struct HostPath {
  const Pod* pod;
  const Leaf* leaf;
  const Host* host;
};

struct DevicePath {
  HostPath host;
  const Island* island;
  const Device* device;
};

std::optional<HostPath> find_host_path(const ClusterMap& map, std::string_view id) {
  for (const Pod& pod : map.pods)
    for (const Leaf& leaf : pod.leaves)
      for (const Host& host : leaf.hosts)
        if (host.id == id) return HostPath{&pod, &leaf, &host};
  return std::nullopt;
}

Result<HostPath> locate(const ClusterMap& map, std::string_view id) {
  if (auto path = find_host_path(map, id)) return *path;
  std::vector<std::string_view> known;
  for (const Host* host : hosts(map)) known.push_back(host->id);
  return Error{Code::not_found, format("the map has no host '{}'{}", id, did_you_mean(id, known))};
}

Result<DevicePath> locate(const ClusterMap& map, const DeviceRef& ref) {
  HostPath host = TRY(locate(map, ref.host));
  int left = ref.index;
  for (const Island& island : host.host->islands) {
    int count = static_cast<int>(island.devices.size());
    if (left >= 0 && left < count)
      return DevicePath{host, &island, &island.devices[static_cast<std::size_t>(left)]};
    left -= count;
  }
  return Error{Code::not_found, format("the host '{}' has no device {}; it has {}", ref.host,
                                       ref.index, device_count(*host.host))};
}

Level level_between(const HostPath& a, const HostPath& b) {
  if (a.host == b.host) return Level::host;
  if (a.leaf == b.leaf) return Level::leaf;
  return a.pod == b.pod ? Level::pod : Level::cluster;
}

Level level_between(const DevicePath& a, const DevicePath& b) {
  if (a.device == b.device) return Level::device;
  return a.island == b.island ? Level::island : level_between(a.host, b.host);
}

// Two links in sequence: a value that is unknown in one is unknown in the result.
LinkSpeed chained(const LinkSpeed& a, const LinkSpeed& b) {
  LinkSpeed result;
  if (a.bandwidth && b.bandwidth) result.bandwidth = std::min(*a.bandwidth, *b.bandwidth);
  if (a.latency && b.latency) result.latency = *a.latency + *b.latency;
  return result;
}

LinkSpeed link_of(const ClusterMap& map, const HostPath& a, const HostPath& b) {
  Level level = level_between(a, b);
  if (level == Level::host) return a.host->between_islands;
  if (level == Level::leaf) return chained(a.host->to_leaf, b.host->to_leaf);
  const LinkSpeed& middle = level == Level::pod ? a.pod->between_leaves : map.between_pods;
  return chained(chained(a.host->to_leaf, middle), b.host->to_leaf);
}

}  // namespace

std::vector<const Host*> hosts(const Pod& pod) {
  std::vector<const Host*> result;
  for (const Leaf& leaf : pod.leaves)
    for (const Host& host : leaf.hosts) result.push_back(&host);
  return result;
}

std::vector<const Host*> hosts(const ClusterMap& map) {
  std::vector<const Host*> result;
  for (const Pod& pod : map.pods)
    for (const Host* host : hosts(pod)) result.push_back(host);
  return result;
}

std::vector<const Device*> devices(const Host& host) {
  std::vector<const Device*> result;
  for (const Island& island : host.islands)
    for (const Device& device : island.devices) result.push_back(&device);
  return result;
}

std::size_t device_count(const Host& host) {
  std::size_t count = 0;
  for (const Island& island : host.islands) count += island.devices.size();
  return count;
}

bool has_same_devices(const Host& a, const Host& b) {
  return std::ranges::equal(devices(a), devices(b),
                            [](const Device* of_a, const Device* of_b) { return *of_a == *of_b; });
}

// Several devices of the map may have one number: then the index decides.
std::vector<int> current_indices(const Host& host, const std::vector<int>& indices,
                                 const std::vector<int>& numbers) {
  if (numbers.size() != indices.size()) return indices;
  const auto all = devices(host);
  std::vector<int> current;
  const auto is_at = [&](int index, int number) {
    return index >= 0 && std::cmp_less(index, all.size()) &&
           all[static_cast<std::size_t>(index)]->number == number &&
           std::ranges::find(current, index) == current.end();
  };
  for (std::size_t i = 0; i < numbers.size(); ++i) {
    int index = indices[i];
    if (!is_at(index, numbers[i])) index = 0;
    while (std::cmp_less(index, all.size()) && !is_at(index, numbers[i])) ++index;
    if (std::cmp_less(index, all.size())) current.push_back(index);
  }
  return current;
}

std::size_t device_count(const ClusterMap& map) {
  std::size_t count = 0;
  for (const Host* host : hosts(map)) count += device_count(*host);
  return count;
}

const Host* find_host(const ClusterMap& map, std::string_view id) {
  auto path = find_host_path(map, id);
  return path ? path->host : nullptr;
}

std::string engine_of(const ClusterMap& map, std::string_view host) {
  for (const Pod& pod : map.pods)
    for (const Leaf& leaf : pod.leaves)
      for (const Host& one : leaf.hosts)
        if (one.id == host) return pod.engine;
  return {};
}

bool has_several_engines(const ClusterMap& map) {
  return std::ranges::any_of(map.pods,
                             [&](const Pod& pod) { return pod.engine != map.pods.front().engine; });
}

const std::string& name_of(const Host& host) { return host.name.empty() ? host.id : host.name; }

const std::string& address_of(const Host& host) {
  return host.address.empty() ? host.id : host.address;
}

Result<Level> common_level(const ClusterMap& map, const DeviceRef& a, const DeviceRef& b) {
  return level_between(TRY(locate(map, a)), TRY(locate(map, b)));
}

Result<LinkSpeed> link_between(const ClusterMap& map, const DeviceRef& a, const DeviceRef& b) {
  DevicePath from = TRY(locate(map, a)), to = TRY(locate(map, b));
  Level level = level_between(from, to);
  if (level == Level::device) return LinkSpeed{std::nullopt, Duration(0)};
  if (level == Level::island) return from.island->between_devices;
  return link_of(map, from.host, to.host);
}

}  // namespace lockstep::map
