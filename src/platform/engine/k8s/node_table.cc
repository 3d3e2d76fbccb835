#include "platform/engine/k8s/node_table.h"

#include <algorithm>
#include <set>
#include <utility>
#include <vector>

#include "platform/engine/k8s/json_fields.h"

namespace lockstep::engine {
namespace {

constexpr auto kDeletedNode = "its Node was deleted from the cluster";

}  // namespace

void NodeTable::replace(const Json& items, Moment now) {
  std::set<std::string> names;
  for (const Json& item : items) {
    names.insert(text_of(item, {"metadata", "name"}));
    update(item, now);
  }
  for (auto& [name, node] : nodes_)
    if (!names.contains(name)) node = {.unfit = kDeletedNode, .was_deleted = true};
  hosts_changed_ |=
      std::erase_if(hosts_, [&](const auto& entry) { return !names.contains(entry.first); }) > 0;
}

void NodeTable::change(const std::string& type, const Json& object, Moment now) {
  if (type != "DELETED") return update(object, now);
  const std::string name = text_of(object, {"metadata", "name"});
  nodes_[name] = {.unfit = kDeletedNode, .was_deleted = true};
  hosts_changed_ |= hosts_.erase(name) > 0;
}

void NodeTable::update(const Json& object, Moment now) {
  K8sHost host = k8s_host_of(object, device_resource_);
  Node& node = nodes_[host.name];
  const auto since = node.unavailable.empty() ? now : node.unavailable_since.value_or(now);
  node = {.unavailable = std::move(host.unavailable), .unfit = std::move(host.unfit)};
  if (!node.unavailable.empty()) node.unavailable_since = since;
  if (is_control_plane(object)) return;
  host.unavailable.clear();
  host.unfit.clear();
  keep_host(std::move(host));
}

void NodeTable::keep_host(K8sHost host) {
  K8sHost& kept = hosts_[host.name];
  if (kept == host) return;
  kept = std::move(host);
  hosts_changed_ = true;
}

std::shared_ptr<const map::ClusterMap> NodeTable::map() {
  if (!std::exchange(hosts_changed_, false)) return map_;
  const bool have_devices =
      std::ranges::any_of(hosts_, [](const auto& entry) { return entry.second.devices > 0; });
  std::vector<K8sHost> there;
  for (const auto& [name, host] : hosts_)
    if (!have_devices || host.devices > 0) there.push_back(host);
  map::ClusterMap made = map_of_k8s(there);
  if (!made.pods.empty() && map::check(made) && (!map_ || *map_ != made))
    map_ = std::make_shared<const map::ClusterMap>(std::move(made));
  return map_;
}

bool NodeTable::was_deleted(const std::string& node) const {
  const auto found = nodes_.find(node);
  return found != nodes_.end() && found->second.was_deleted;
}

void NodeTable::add_hosts_to(EngineList& listed, Moment now, Duration silent_after) const {
  for (const auto& [name, node] : nodes_) {
    if (!node.unfit.empty()) listed.unfit.emplace(name, node.unfit);
    if (node.unavailable.empty()) continue;
    listed.unavailable.emplace(name, node.unavailable);
    if (now - *node.unavailable_since >= silent_after) listed.silent.insert(name);
  }
}

}  // namespace lockstep::engine
