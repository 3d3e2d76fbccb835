#include "apps/k8s/cluster_options.h"

#include <utility>

#include "apps/cli/subcommand.h"
#include "base/os/environment.h"
#include "platform/engine/k8s/client/kubeconfig.h"
#include "platform/k8s/names.h"

namespace lockstep::cli {

void add_kubeconfig_options(CLI::App& command, const std::shared_ptr<ClusterWords>& words) {
  command
      .add_option("--kubeconfig", words->kubeconfig,
                  "the file that names the cluster (default: KUBECONFIG, else ~/.kube/config, else "
                  "the service account of this Pod)")
      ->type_name(kFileValue);
  command
      .add_option("--context", words->context, "a context of that file (default: the current one)")
      ->type_name("NAME");
}

Result<OpenCluster> open_cluster(const ClusterWords& words, const Clock& clock) {
  engine::ClusterAccess access = TRY(engine::find_access(
      {.kubeconfig = words.kubeconfig, .context = words.context}, own_environment()));
  OpenCluster cluster{.api = {},
                      .server = access.server,
                      .source = access.source,
                      .in_namespace = words.in_namespace};
  if (cluster.in_namespace.empty()) cluster.in_namespace = access.in_namespace;
  if (cluster.in_namespace.empty()) cluster.in_namespace = "default";
  if (auto checked = k8s::check_dns_label(cluster.in_namespace); !checked)
    return std::move(checked).error().with_context("--namespace");
  cluster.api = TRY(engine::CurlApiServer::open(std::move(access), clock));
  return cluster;
}

}  // namespace lockstep::cli
