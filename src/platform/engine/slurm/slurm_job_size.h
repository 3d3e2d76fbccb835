// The partition of a job, and what each of its nodes gets there.
#pragma once

#include <string>
#include <vector>

#include "base/result.h"
#include "platform/engine/gang.h"
#include "platform/engine/slurm/slurm_output.h"

namespace lockstep::engine {

struct SlurmJobSize {
  std::string partition{};  // of its hosts; empty: Slurm's default one
  int cores = 1, gpus = 0;  // of each node
  std::string gpu_type{};   // of its hosts, if they are parts; empty: any
  // Those of the partition that Slurm must not choose, if it chooses the hosts.
  std::vector<std::string> excluded{};
  bool operator==(const SlurmJobSize&) const = default;
};

// True if Slurm chooses the hosts of the gang.
bool slurm_places(const Gang& gang);

// By the hosts of the gang; or by those that Slurm may choose: then it is the smallest size of them
// in the first partition that has enough for the gang, else in the one with the most.
Result<SlurmJobSize> slurm_job_size(const Gang& gang, const std::vector<SlurmHost>& hosts);

}  // namespace lockstep::engine
