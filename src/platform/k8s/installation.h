// A daemon in a cluster of Kubernetes, as objects.
#pragma once

#include <string>
#include <vector>

#include "base/result.h"
#include "text/json.h"

namespace lockstep::k8s {

struct Installation {
  std::string name = "lockstep";
  std::string in_namespace = "lockstep";
  std::string image;        // with the daemon
  std::string agent_image;  // from which Pods of runs copy the agent
  std::string run_image;    // of runs that name none; empty: they must name one
  std::string storage = "20Gi";
  std::string storage_class;  // empty: that of the cluster
  std::string device_resource = "nvidia.com/gpu";
  std::vector<std::string> volumes;  // of each Pod of a run, as parse_volume reads them
  std::string shared;  // a folder in one of them, for checkpoints; the daemon has that volume, too
  std::string project_table;  // the text of the file of --project-namespaces; empty: none
};

// Code::invalid: a volume cannot be read, or none has the shared folder.
Result<void> check_installation(const Installation& installation);

// The namespace, the rights, the daemon's volume, its Deployment, and the Service by which agents
// and users reach it.
std::vector<Json> installation_manifests(const Installation& installation);

}  // namespace lockstep::k8s
