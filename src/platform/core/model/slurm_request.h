// SlurmRequest: the section `slurm` of a run, which asks for properties of its job. Another engine
// than Slurm ignores it.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "text/record.h"

namespace lockstep::model {

// The name of the engine that uses the section.
inline constexpr std::string_view kSlurmEngine = "slurm";

struct SlurmRequest {
  std::optional<std::string> account{}, qos{}, constraint{}, partition{}, switches{};
  std::optional<std::string> gpu_type{};
  std::optional<std::vector<std::string>> options{};  // further arguments of sbatch

  bool operator==(const SlurmRequest&) const = default;

  static constexpr auto fields() {
    return record<SlurmRequest>(
        field("account", &SlurmRequest::account, "account of Slurm that the job is charged to"),
        field("qos", &SlurmRequest::qos, "quality of service of Slurm for the job"),
        field("constraint", &SlurmRequest::constraint,
              "features of Slurm that each host has, such as a100&nvlink"),
        field("partition", &SlurmRequest::partition, "partition of Slurm for the job"),
        field(
            "switches", &SlurmRequest::switches,
            "most leaf switches of Slurm for the job, such as 1, or 1@10:00 with the longest wait"),
        field("gpu_type", &SlurmRequest::gpu_type,
              "type of the GPUs in Slurm's Gres, such as h100; each host has GPUs of this type "
              "alone"),
        field("options", &SlurmRequest::options,
              "further argument of sbatch, such as --reservation=night"));
  }
};

// Errors begin with the field of the section. An option that Lockstep sets itself is refused.
Result<void> check(const SlurmRequest& request);

// The features that the constraint names: words joined by & or a comma. Another expression is
// refused, since Lockstep chooses the hosts.
Result<std::vector<std::string>> features_of(const std::string& constraint);

}  // namespace lockstep::model
