// The engine of Kubernetes and the map of its Nodes, from the options of `lockstep serve`.
#pragma once

#include <memory>
#include <string>

#include "apps/daemon/serve_config.h"
#include "base/clock.h"
#include "base/result.h"
#include "map/map.h"
#include "platform/core/model/settings/settings.h"
#include "platform/engine/k8s/k8s_engine.h"
#include "platform/host/home.h"
#include "platform/host/keys.h"

namespace lockstep::cli {

struct K8sCluster {
  map::ClusterMap map;
  std::unique_ptr<engine::K8sEngine> engine;
};

struct K8sClusterSetup {
  const std::string& installation;
  const host::Home& home;
  const host::Keys& keys;
  const ServeConfig& served;
  const model::Settings& settings;
  const Clock& clock;  // outlives the engine
};

// The options have been checked.
Result<K8sCluster> open_k8s(const K8sClusterSetup& setup);

}  // namespace lockstep::cli
