#include "map/grown_map.h"

#include <algorithm>
#include <set>
#include <string>

#include "map/query.h"

namespace lockstep::map {
namespace {

template <class Part>
Part& part_of_name(std::vector<Part>& parts, const std::string& name) {
  const auto found = std::ranges::find(parts, name, &Part::name);
  if (found != parts.end()) return *found;
  parts.emplace_back();
  parts.back().name = name;
  return parts.back();
}

void keep_devices(const ClusterMap& before, ClusterMap& seen) {
  for (Pod& pod : seen.pods)
    for (Leaf& leaf : pod.leaves)
      for (Host& host : leaf.hosts)
        if (const Host* old = find_host(before, host.id)) host.islands = old->islands;
}

}  // namespace

ClusterMap grown_map(const ClusterMap& before, ClusterMap seen) {
  keep_devices(before, seen);
  std::set<std::string> names;
  for (const Host* host : hosts(seen)) names.insert(host->id);
  for (const Pod& pod : before.pods)
    for (const Leaf& leaf : pod.leaves)
      for (const Host& host : leaf.hosts) {
        if (names.contains(host.id)) continue;
        Pod& place = part_of_name(seen.pods, pod.name);
        part_of_name(place.leaves, leaf.name).hosts.push_back(host);
      }
  seen.measured = before.measured;
  return seen;
}

}  // namespace lockstep::map
