#include "apps/k8s/cluster_check.h"

#include <algorithm>
#include <iterator>

#include "apps/run/run_display.h"
#include "base/clock.h"
#include "base/format.h"
#include "map/taints.h"
#include "platform/engine/k8s/access_check.h"
#include "platform/engine/k8s/k8s_map.h"
#include "platform/k8s/project_table.h"
#include "text/display/table.h"

namespace lockstep::cli {
namespace {

std::string problem_of(const engine::K8sHost& host) {
  if (!host.unavailable.empty()) return host.unavailable;
  if (!host.unfit.empty() || !map::has_taints(host.labels)) return host.unfit;
  return "takes runs that tolerate " + map::taints_text(host.labels);
}

CheckedNode checked_node(const engine::K8sHost& host) {
  return {.name = host.name,
          .pod = host.pod,
          .leaf = host.leaf,
          .devices = host.devices,
          .cores = host.cores,
          .problem = problem_of(host)};
}

std::string nodes_table(const ClusterCheck& found) {
  if (found.nodes.empty()) return "the cluster shows no Node for runs";
  Table table({"NODE", "POD", "LEAF", "DEVICES", "CORES", "STATE"});
  const auto or_none = [](const std::string& words) { return words.empty() ? "-" : words; };
  for (const CheckedNode& node : found.nodes)
    table.add({node.name, or_none(node.pod), or_none(node.leaf), format("{}", node.devices),
               format("{}", node.cores), node.problem.empty() ? "ready" : node.problem});
  return fit_to_terminal(table);
}

std::string rights_text(const ClusterCheck& found) {
  if (found.missing_rights.empty()) return "all that a daemon needs";
  return format("missing: {}; `lockstep k8s rbac --namespace {}` prints a role that has them",
                joined(found.missing_rights, ", "), found.in_namespace);
}

}  // namespace

Result<ClusterCheck> check_cluster(const ClusterWords& words, const std::string& device_resource) {
  const SystemClock clock;
  const OpenCluster cluster = TRY(open_cluster(words, clock));
  ClusterCheck found{
      .server = cluster.server,
      .version = TRY(engine::k8s_version(*cluster.api)),
      .access = cluster.source,
      .in_namespace = cluster.in_namespace,
      .device_resource = device_resource,
      .missing_rights = TRY(engine::missing_rights(*cluster.api, cluster.in_namespace)),
      .nodes = {}};
  for (const std::string& name : k8s::further_namespaces(words.projects, found.in_namespace))
    std::ranges::move(TRY(engine::missing_rights_in(*cluster.api, name)),
                      std::back_inserter(found.missing_rights));
  const auto hosts = engine::list_k8s_hosts(*cluster.api, device_resource);
  if (!hosts && found.missing_rights.empty()) return hosts.error();
  if (hosts) std::ranges::transform(*hosts, std::back_inserter(found.nodes), checked_node);
  return found;
}

std::string check_text(const ClusterCheck& found) {
  return format("server     {}, Kubernetes {}\naccess     {}\nnamespace  {}\nrights     {}\n{}",
                found.server, found.version, found.access, found.in_namespace, rights_text(found),
                nodes_table(found));
}

}  // namespace lockstep::cli
