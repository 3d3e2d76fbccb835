#include "platform/core/model/map_of_hosts.h"

#include <utility>

namespace lockstep::model {
namespace {

std::string_view pod_name_of(const HostRow& host) {
  return host.pod.empty() ? kDefaultPod : std::string_view(host.pod);
}

}  // namespace

map::ClusterMap map_of_hosts(const std::map<std::string, HostRow>& hosts,
                             const map::ClusterMap& rest) {
  std::map<std::string_view, map::Leaf> leaves;  // by pod
  for (const auto& [id, host] : hosts) {
    if (!host.facts) continue;
    map::Leaf& leaf = leaves[pod_name_of(host)];
    leaf.name = "leaf-0";
    leaf.hosts.push_back(*host.facts);
    leaf.hosts.back().id = id;
    leaf.hosts.back().labels = host.labels;
  }
  map::ClusterMap map{rest.name, rest.between_pods, {}, rest.measured};
  for (auto& [name, leaf] : leaves) map.pods.push_back({std::string(name), {}, {std::move(leaf)}});
  return map;
}

bool changes_map(const HostRow* before, const HostRow& after) {
  if (!before) return after.facts.has_value();
  return before->facts != after.facts ||
         (after.facts &&
          (pod_name_of(*before) != pod_name_of(after) || before->labels != after.labels));
}

}  // namespace lockstep::model
