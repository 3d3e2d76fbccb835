// The rights of a daemon in a Kubernetes cluster: no more than docs/design/kubernetes.md needs.
#pragma once

#include <string>
#include <vector>

#include "text/json.h"

namespace lockstep::k8s {

// The verbs that a daemon uses on the objects of one resource of the core API.
struct ResourceRights {
  std::string resource;
  std::vector<std::string> verbs;
  bool in_namespace = true;  // else in the whole cluster
};
const std::vector<ResourceRights>& daemon_rights();

// A ServiceAccount `name` in the namespace, its Role there and in the further namespaces, its
// ClusterRole for Nodes, and their bindings.
std::vector<Json> rights_manifests(const std::string& name, const std::string& in_namespace,
                                   const std::vector<std::string>& further = {});

}  // namespace lockstep::k8s
