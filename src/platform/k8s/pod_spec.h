// The Pod of one node of a workload.
#pragma once

#include <optional>
#include <string>

#include "platform/k8s/workload.h"
#include "text/json.h"

namespace lockstep::k8s {

// Where the Pod stands in its workload.
struct PodPlace {
  std::string master;                 // the host of rank 0
  std::optional<std::string> host{};  // its host name and the subdomain, if no controller sets them
  std::optional<std::string> subdomain{};
  std::optional<int> index{};  // of a bare Pod; else the completion index of its Job
};

Json pod_spec(const Workload& workload, const PodPlace& place);

// Labels that select the Pods of a workload, and those of all its objects.
Json selector(const Workload& workload);
Json labels(const Workload& workload);

}  // namespace lockstep::k8s
