#include "map/grown_map.h"

#include <algorithm>
#include <set>
#include <string>

#include "map/query.h"

namespace lockstep::map {
namespace {

Leaf& leaf_of_name(std::vector<Leaf>& leaves, const std::string& name) {
  const auto found = std::ranges::find(leaves, name, &Leaf::name);
  if (found != leaves.end()) return *found;
  leaves.emplace_back();
  leaves.back().name = name;
  return leaves.back();
}

// Engines may have pods of the same name.
Pod& pod_like(std::vector<Pod>& pods, const Pod& before) {
  const auto found = std::ranges::find_if(
      pods, [&](const Pod& pod) { return pod.name == before.name && pod.engine == before.engine; });
  if (found != pods.end()) return *found;
  pods.emplace_back();
  pods.back().name = before.name;
  pods.back().engine = before.engine;
  return pods.back();
}

bool has_gpu(const Host& host) {
  return std::ranges::any_of(devices(host),
                             [](const Device* device) { return device->kind == DeviceKind::gpu; });
}

void keep_devices(const ClusterMap& before, ClusterMap& seen,
                  const std::function<bool(const std::string& host)>& is_used) {
  for (Pod& pod : seen.pods)
    for (Leaf& leaf : pod.leaves)
      for (Host& host : leaf.hosts) {
        const Host* old = find_host(before, host.id);
        if (!old || old->islands == host.islands) continue;
        if ((has_gpu(*old) && !has_gpu(host)) || is_used(host.id)) host.islands = old->islands;
      }
}

}  // namespace

ClusterMap grown_map(const ClusterMap& before, ClusterMap seen,
                     const std::function<bool(const std::string& host)>& is_used) {
  keep_devices(before, seen, is_used);
  std::set<std::string> names;
  for (const Host* host : hosts(seen)) names.insert(host->id);
  for (const Pod& pod : before.pods)
    for (const Leaf& leaf : pod.leaves)
      for (const Host& host : leaf.hosts) {
        if (names.contains(host.id)) continue;
        Pod& place = pod_like(seen.pods, pod);
        leaf_of_name(place.leaves, leaf.name).hosts.push_back(host);
      }
  seen.measured = before.measured;
  return seen;
}

}  // namespace lockstep::map
