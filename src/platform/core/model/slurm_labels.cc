#include "platform/core/model/slurm_labels.h"

#include <vector>

namespace lockstep::model {

std::string slurm_partition_label(const std::string& partition) { return "partition/" + partition; }
std::string slurm_feature_label(const std::string& feature) { return "feature/" + feature; }
std::string slurm_gpu_type_label(const std::string& type) { return "gpu-type/" + type; }

map::Labels labels_of(const SlurmRequest& request) {
  map::Labels labels;
  if (request.partition) labels[slurm_partition_label(*request.partition)] = kSlurmLabelValue;
  if (request.gpu_type) labels[slurm_gpu_type_label(*request.gpu_type)] = kSlurmLabelValue;
  if (!request.constraint) return labels;
  for (const std::string& feature :
       features_of(*request.constraint).value_or(std::vector<std::string>()))
    labels[slurm_feature_label(feature)] = kSlurmLabelValue;
  return labels;
}

}  // namespace lockstep::model
