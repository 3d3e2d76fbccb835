// The state of a cluster of Kubernetes as a daemon would find it: `lockstep k8s check`.
#pragma once

#include <string>
#include <vector>

#include "apps/k8s/cluster_options.h"
#include "base/result.h"
#include "text/record.h"

namespace lockstep::cli {

struct CheckedNode {
  std::string name, pod, leaf;
  int devices = 0;
  int cores = 0;
  std::string problem;

  static constexpr auto fields() {
    return record<CheckedNode>(field("name", &CheckedNode::name, "of the Node"),
                               field("pod", &CheckedNode::pod, "of the map"),
                               field("leaf", &CheckedNode::leaf, "of the map"),
                               field("devices", &CheckedNode::devices, "of the device resource"),
                               field("cores", &CheckedNode::cores, "for Pods"),
                               field("problem", &CheckedNode::problem, "why it takes no run"));
  }
};

struct ClusterCheck {
  std::string server, version, access, in_namespace, device_resource;
  std::vector<std::string> missing_rights;
  std::vector<CheckedNode> nodes;

  static constexpr auto fields() {
    return record<ClusterCheck>(
        field("server", &ClusterCheck::server, "its URL"),
        field("version", &ClusterCheck::version, "of Kubernetes"),
        field("access", &ClusterCheck::access, "where the credentials are from"),
        field("namespace", &ClusterCheck::in_namespace, "of the daemon's objects"),
        field("device_resource", &ClusterCheck::device_resource, "of the nodes"),
        field("missing_rights", &ClusterCheck::missing_rights, "such as create pods"),
        field("nodes", &ClusterCheck::nodes, "those that are not of the control plane"));
  }
};

// The nodes are empty if the right to list them is missing.
Result<ClusterCheck> check_cluster(const ClusterWords& words, const std::string& device_resource);
std::string check_text(const ClusterCheck& found);

}  // namespace lockstep::cli
