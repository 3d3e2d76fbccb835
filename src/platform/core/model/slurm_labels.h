// The labels that hosts of Slurm have on the map, and those that a run asks for by its section
// `slurm`.
#pragma once

#include <string>

#include "map/labels.h"
#include "platform/core/model/slurm_request.h"

namespace lockstep::model {

inline constexpr std::string_view kSlurmLabelValue = "yes";
// A type of GPUs on a host that has others too, where Lockstep chooses the hosts.
inline constexpr std::string_view kSlurmOneOfSeveral = "one-of-several";

std::string slurm_partition_label(const std::string& partition);
std::string slurm_feature_label(const std::string& feature);
std::string slurm_gpu_type_label(const std::string& type);

// The labels of the hosts on which the job can run.
map::Labels labels_of(const SlurmRequest& request);

}  // namespace lockstep::model
