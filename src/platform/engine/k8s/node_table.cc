#include "platform/engine/k8s/node_table.h"

#include <set>
#include <utility>

#include "platform/engine/k8s/json_fields.h"
#include "platform/engine/k8s/k8s_map.h"

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
}

void NodeTable::change(const std::string& type, const Json& object, Moment now) {
  if (type != "DELETED") return update(object, now);
  nodes_[text_of(object, {"metadata", "name"})] = {.unfit = kDeletedNode, .was_deleted = true};
}

void NodeTable::update(const Json& object, Moment now) {
  K8sHost host = k8s_host_of(object, device_resource_);
  Node& node = nodes_[host.name];
  const auto since = node.unavailable.empty() ? now : node.unavailable_since.value_or(now);
  node = {.unavailable = std::move(host.unavailable), .unfit = std::move(host.unfit)};
  if (!node.unavailable.empty()) node.unavailable_since = since;
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
