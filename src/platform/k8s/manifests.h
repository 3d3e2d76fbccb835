// The objects of a workload, in the order in which to apply them. The workload has been checked.
// docs/design/kubernetes.md gives the reasons of their fields.
#pragma once

#include <string>
#include <vector>

#include "platform/k8s/workload.h"
#include "text/json.h"

namespace lockstep::k8s {

// An Indexed Job (Kubernetes 1.24 or later) and its headless Service.
std::vector<Json> job_manifests(const Workload& workload);
// A JobSet, which makes its Service itself.
std::vector<Json> jobset_manifests(const Workload& workload);
// A Pod for each node, and their headless Service; for every version of Kubernetes.
std::vector<Json> pod_manifests(const Workload& workload);
// The headless Service alone.
std::vector<Json> service_manifests(const Workload& workload);

// As a stream of YAML documents.
std::string to_yaml(const std::vector<Json>& objects);

}  // namespace lockstep::k8s
