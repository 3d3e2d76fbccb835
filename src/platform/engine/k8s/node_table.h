// NodeTable: the Nodes of the cluster, their map, and those that cannot be asked or take no Pod,
// from lists and events of the API server. Its owner guards it.
#pragma once

#include <chrono>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "base/units.h"
#include "map/map.h"
#include "platform/engine/engine.h"
#include "platform/engine/k8s/k8s_map.h"
#include "text/json.h"

namespace lockstep::engine {

class NodeTable {
 public:
  using Moment = std::chrono::steady_clock::time_point;

  // A taint with the name of the resource closes no Node: Pods that ask for it tolerate it.
  explicit NodeTable(std::string device_resource) : device_resource_(std::move(device_resource)) {}

  void replace(const Json& items, Moment now);
  void change(const std::string& type, const Json& object, Moment now);

  // It was there, and its object was deleted: none of its Pods runs.
  bool was_deleted(const std::string& node) const;
  // The same object until it changes. Null: there is no Node for runs. If Nodes have devices, one
  // without counts only when its device plugin has reported some.
  std::shared_ptr<const map::ClusterMap> map();
  // The hosts of a list that are unavailable, silent for `silent_after`, or unfit.
  void add_hosts_to(EngineList& listed, Moment now, Duration silent_after) const;

 private:
  struct Node {
    std::string unavailable{}, unfit{};
    std::optional<Moment> unavailable_since{};
    bool was_deleted = false;
  };
  void update(const Json& object, Moment now);
  void keep_host(K8sHost host);

  std::string device_resource_;
  std::map<std::string, Node> nodes_;
  std::map<std::string, K8sHost> hosts_;  // without their states
  bool hosts_changed_ = false;            // since the map was made
  std::shared_ptr<const map::ClusterMap> map_;
};

}  // namespace lockstep::engine
