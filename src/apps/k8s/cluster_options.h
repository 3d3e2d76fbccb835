// The options by which a command finds a cluster of Kubernetes, and the connection to it.
#pragma once

#include <memory>
#include <string>

#include <CLI/CLI.hpp>

#include "base/clock.h"
#include "base/result.h"
#include "platform/engine/k8s/client/curl_api_server.h"
#include "platform/k8s/project_table.h"

namespace lockstep::cli {

struct ClusterWords {
  std::string kubeconfig, context, in_namespace;
  k8s::ProjectTable projects{};
};

// --kubeconfig and --context.
void add_kubeconfig_options(CLI::App& command, const std::shared_ptr<ClusterWords>& words);

struct OpenCluster {
  std::unique_ptr<engine::CurlApiServer> api;
  std::string server, source, in_namespace;
};

// The namespace is the one of the words, else of the context, else "default". Makes no call.
Result<OpenCluster> open_cluster(const ClusterWords& words, const Clock& clock);

}  // namespace lockstep::cli
