// NodeTable: the Nodes of the cluster that cannot be asked or take no Pod, from lists and events of
// the API server. Its owner guards it.
#pragma once

#include <chrono>
#include <map>
#include <optional>
#include <string>
#include <utility>

#include "base/units.h"
#include "platform/engine/engine.h"
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
  // The hosts of a list that are unavailable, silent for `silent_after`, or unfit.
  void add_hosts_to(EngineList& listed, Moment now, Duration silent_after) const;

 private:
  struct Node {
    std::string unavailable{}, unfit{};
    std::optional<Moment> unavailable_since{};
    bool was_deleted = false;
  };
  void update(const Json& object, Moment now);

  std::string device_resource_;
  std::map<std::string, Node> nodes_;
};

}  // namespace lockstep::engine
