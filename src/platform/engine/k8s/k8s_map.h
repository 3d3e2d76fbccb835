// The map of a cluster that Kubernetes manages, from its Nodes.
#pragma once

#include <string>
#include <vector>

#include "base/result.h"
#include "base/units.h"
#include "map/map.h"
#include "platform/engine/k8s/api_server.h"
#include "text/json.h"

namespace lockstep::engine {

// A Node as the daemon sees it.
struct K8sHost {
  std::string name, address;
  std::string pod, leaf;  // of the map
  Bytes memory{};
  int cores = 0;
  int devices = 0;  // of the device resource
  map::Labels labels{};
  std::string unavailable{};  // why its kubelet cannot be asked; empty: it can
  std::string unfit{};        // why it takes no Pod now; empty: it does

  bool operator==(const K8sHost&) const = default;
};

// `device_resource` is what a device plugin offers, such as nvidia.com/gpu.
K8sHost k8s_host_of(const Json& node, const std::string& device_resource);

// It has the taint of the control plane, so no run is placed there.
bool is_control_plane(const Json& node);

// Without Nodes of the control plane. Their order is that of the API server: by name.
Result<std::vector<K8sHost>> list_k8s_hosts(ApiServer& api, const std::string& device_resource);

// A pod for each block, zone or region, and a leaf for each rack or leaf switch, as far as the
// Nodes have labels of them. A host's devices are those of the resource, or its cores if it has
// none.
map::ClusterMap map_of_k8s(const std::vector<K8sHost>& hosts);
Result<map::ClusterMap> discover_k8s(ApiServer& api, const std::string& device_resource);

}  // namespace lockstep::engine
