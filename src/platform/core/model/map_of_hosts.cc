#include "platform/core/model/map_of_hosts.h"

#include <utility>

#include "map/query.h"

namespace lockstep::model {
namespace {

std::string_view pod_name_of(const HostRow& host) {
  return host.pod.empty() ? kDefaultPod : std::string_view(host.pod);
}

bool is_of_other_engine(const map::Pod& pod) {
  return !pod.engine.empty() && pod.engine != kHostsEngine;
}

}  // namespace

map::ClusterMap map_of_hosts(const std::map<std::string, HostRow>& hosts,
                             const map::ClusterMap& rest) {
  map::ClusterMap map{rest.name, rest.between_pods, {}, rest.measured};
  for (const map::Pod& pod : rest.pods)
    if (is_of_other_engine(pod)) map.pods.push_back(pod);
  const std::string engine(map.pods.empty() ? "" : kHostsEngine);
  std::map<std::string_view, map::Leaf> leaves;  // by pod
  for (const auto& [id, host] : hosts) {
    if (!host.facts) continue;
    map::Leaf& leaf = leaves[pod_name_of(host)];
    leaf.name = "leaf-0";
    leaf.hosts.push_back(*host.facts);
    leaf.hosts.back().id = id;
    leaf.hosts.back().labels = host.labels;
    if (!engine.empty()) leaf.hosts.back().labels.emplace("engine", engine);
  }
  for (auto& [name, leaf] : leaves) {
    map.pods.push_back({std::string(name), {}, {std::move(leaf)}});
    map.pods.back().engine = engine;
  }
  return map;
}

bool is_host_of_other_engine(const map::ClusterMap& map, std::string_view host) {
  const std::string engine = map::engine_of(map, host);
  return !engine.empty() && engine != kHostsEngine;
}

std::vector<std::string> drop_hosts_that_joined(map::ClusterMap& map,
                                                const std::map<std::string, HostRow>& hosts) {
  std::vector<std::string> dropped;
  const auto has_name_of_joined = [&](const map::Host& host) {
    const auto row = hosts.find(host.id);
    if (row == hosts.end() || !has_joined(row->second)) return false;
    dropped.push_back(host.id);
    return true;
  };
  for (map::Pod& pod : map.pods)
    if (is_of_other_engine(pod))
      for (map::Leaf& leaf : pod.leaves) std::erase_if(leaf.hosts, has_name_of_joined);
  for (map::Pod& pod : map.pods)
    std::erase_if(pod.leaves, [](const map::Leaf& leaf) { return leaf.hosts.empty(); });
  std::erase_if(map.pods, [](const map::Pod& pod) { return pod.leaves.empty(); });
  return dropped;
}

bool changes_map(const HostRow* before, const HostRow& after) {
  if (!before) return after.facts.has_value();
  return before->facts != after.facts ||
         (after.facts &&
          (pod_name_of(*before) != pod_name_of(after) || before->labels != after.labels));
}

}  // namespace lockstep::model
