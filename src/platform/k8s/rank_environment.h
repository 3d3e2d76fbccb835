// The variables by which the ranks of a workload find each other.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "platform/k8s/workload.h"
#include "text/json.h"

namespace lockstep::k8s {

// Entries of a container's `env`. `master` is the host of rank 0. Without an index, the node's rank
// is the completion index of its Pod in an Indexed Job.
Json rank_environment(const Workload& workload, const std::string& master,
                      std::optional<int> index);

// True if rank_environment() may set it.
bool sets_variable(std::string_view name);

}  // namespace lockstep::k8s
