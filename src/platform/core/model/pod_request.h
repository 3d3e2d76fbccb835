// PodRequest: the section `kubernetes` of a run, which asks for properties of its Pods. Another
// engine than that of Kubernetes ignores it.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "text/record.h"

namespace lockstep::model {

// The name of the engine that uses the section.
inline constexpr std::string_view kPodEngine = "k8s";

// The words have the forms of `lockstep k8s render`.
struct PodRequest {
  std::optional<std::string> service_account{}, priority_class{};
  std::optional<std::string> shared_memory{};  // a quantity of Kubernetes
  std::vector<std::string> volumes{}, tolerations{}, image_pull_secrets{};
  std::map<std::string, std::string> node_selector{};
  std::map<std::string, int> resources{};  // of each node, besides its devices
  bool host_network = false;

  bool operator==(const PodRequest&) const = default;

  static constexpr auto fields() {
    return record<PodRequest>(
        field("service_account", &PodRequest::service_account, "service account of the Pods"),
        field("priority_class", &PodRequest::priority_class, "PriorityClass of the Pods"),
        field("shared_memory", &PodRequest::shared_memory,
              "size of /dev/shm, such as 64Gi; absent: 8Gi"),
        field("volumes", &PodRequest::volumes,
              "volumes of the Pods, such as pvc:NAME:/PATH or host:/SOURCE:/PATH"),
        field("tolerations", &PodRequest::tolerations, "taints that the Pods tolerate"),
        field("image_pull_secrets", &PodRequest::image_pull_secrets,
              "Secrets with which the image is pulled"),
        field("node_selector", &PodRequest::node_selector, "labels that each Node has"),
        field("resources", &PodRequest::resources,
              "further resources of each Pod, such as rdma/hca: 1"),
        field("host_network", &PodRequest::host_network, "the Pods use the network of their Node"));
  }
};

// Errors begin with the field of the section.
Result<void> check(const PodRequest& request);

}  // namespace lockstep::model
