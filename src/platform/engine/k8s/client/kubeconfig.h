// The access to a cluster, as kubectl finds it: kubeconfig files, or the service account of the Pod
// in which this process runs.
#pragma once

#include <filesystem>
#include <string>

#include "base/os/environment.h"
#include "base/result.h"
#include "platform/engine/k8s/client/cluster_access.h"

namespace lockstep::engine {

struct AccessChoice {
  std::string kubeconfig{};  // a file; empty: those of KUBECONFIG, else ~/.kube/config
  std::string context{};     // empty: the current one
  // Used if there is no kubeconfig file, and the environment is that of a Pod.
  std::filesystem::path service_account = "/var/run/secrets/kubernetes.io/serviceaccount";
};

// If several files name a cluster, a user or a context, the first one counts. Code::not_found:
// there is neither a file nor a service account.
Result<ClusterAccess> find_access(const AccessChoice& choice, const Environment& environment);

}  // namespace lockstep::engine
