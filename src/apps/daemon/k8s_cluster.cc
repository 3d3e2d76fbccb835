#include "apps/daemon/k8s_cluster.h"

#include <algorithm>
#include <iterator>
#include <string_view>
#include <utility>
#include <vector>

#include "apps/daemon/remembered_map.h"
#include "apps/k8s/project_file.h"
#include "base/log.h"
#include "base/os/environment.h"
#include "platform/engine/k8s/client/curl_api_server.h"
#include "platform/engine/k8s/client/kubeconfig.h"
#include "platform/engine/k8s/k8s_map.h"
#include "platform/k8s/names.h"
#include "platform/k8s/project_table.h"
#include "platform/k8s/volume.h"

namespace lockstep::cli {
namespace {

constexpr std::string_view kDefaultNamespace = "default";

Result<std::string> namespace_of(const ServeConfig& served, const engine::ClusterAccess& access) {
  std::string name = served.in_namespace.value_or(access.in_namespace);
  if (name.empty()) name = kDefaultNamespace;
  if (auto checked = k8s::check_dns_label(name); !checked)
    return std::move(checked).error().with_context("--namespace");
  return name;
}

Result<engine::PodOptions> pod_options(const K8sClusterSetup& setup) {
  const ServeConfig& served = setup.served;
  engine::PodOptions options{.installation = setup.installation,
                             .agent_image = served.agent_image.value_or(""),
                             .image = served.image.value_or("")};
  if (served.device_resource) options.gpu_resource = *served.device_resource;
  options.record_secret = setup.keys.record_secret();
  options.grace_period = setup.settings.grace_period;
  for (const std::string& words : served.pod_volumes.value_or(std::vector<std::string>()))
    options.volumes.push_back(TRY(k8s::parse_volume(words)));
  return options;
}

}  // namespace

Result<K8sCluster> open_k8s(const K8sClusterSetup& setup) {
  const ServeConfig& served = setup.served;
  const engine::ClusterAccess access = TRY(engine::find_access(
      {.kubeconfig = served.kubeconfig.value_or(""), .context = served.context.value_or("")},
      own_environment()));
  const auto connect = [&]() -> Result<std::shared_ptr<engine::ApiServer>> {
    return std::shared_ptr<engine::ApiServer>(
        TRY(engine::CurlApiServer::open(access, setup.clock)));
  };
  engine::K8sEngine::Setup made{.nodes = TRY(connect()),
                                .namespaces = {},
                                .options = TRY(pod_options(setup)),
                                .projects = TRY(project_table(served.project_namespaces)),
                                .bounds = {.start_limit = setup.settings.start_limit,
                                           .silent_after = setup.settings.host_silent_after}};
  std::vector<std::string> names = {TRY(namespace_of(served, access))};
  std::ranges::copy(k8s::further_namespaces(made.projects, names.front()),
                    std::back_inserter(names));
  for (const std::string& name : names)
    made.namespaces.push_back({.name = name, .calls = TRY(connect()), .pods = TRY(connect())});
  if (!served.shared)
    LS_LOG(warning,
           "checkpoints of runs that name no folder are lost with their Pods: --shared FOLDER and "
           "--pod-volume keep them");
  map::ClusterMap map = TRY(remembered_map(
      engine::discover_k8s(*made.namespaces.front().calls, made.options.gpu_resource),
      setup.home.folder / "k8s-map.yaml", "Kubernetes"));
  return K8sCluster{.map = std::move(map),
                    .engine = std::make_unique<engine::K8sEngine>(std::move(made))};
}

}  // namespace lockstep::cli
