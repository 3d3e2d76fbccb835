// The rights of a daemon in a Kubernetes cluster: no more than docs/design/kubernetes.md needs.
#pragma once

#include <string>
#include <vector>

#include "text/json.h"

namespace lockstep::k8s {

// A ServiceAccount `name` in the namespace, its Role there, its ClusterRole for Nodes, and the
// bindings of both.
std::vector<Json> rights_manifests(const std::string& name, const std::string& in_namespace);

}  // namespace lockstep::k8s
