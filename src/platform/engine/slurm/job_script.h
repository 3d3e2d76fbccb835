// The batch job of an attempt: the arguments of sbatch, and the script, which starts one step with
// an agent on each host.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/os/account.h"
#include "base/units.h"
#include "platform/core/model/ids.h"
#include "platform/core/model/slurm_request.h"
#include "platform/engine/slurm/slurm_partitions.h"

namespace lockstep::engine {

// The properties that all jobs of a daemon have in common.
struct SlurmJobOptions {
  std::string installation;                // of the daemon's folder
  std::vector<SlurmPartition> partitions;  // of the hosts; none: Slurm's default one
  std::string account;
  std::vector<std::string> more;  // further arguments of sbatch
  std::filesystem::path program;  // that every host sees
};

struct SlurmJobNode {
  int index = 0;
  std::string host;              // empty: the I-th of the job, as Slurm lists them
  std::filesystem::path folder;  // the node's, that every host sees
};

struct SlurmJobRequest {
  model::AttemptName attempt;
  std::vector<SlurmJobNode> nodes{};  // not empty
  int cores = 1, gpus = 0;            // of each node
  Bytes memory{};                     // of each node; zero: Slurm's default
  Duration time_limit{};
  std::string partition{};              // of its hosts; empty: Slurm's default one
  std::vector<std::string> excluded{};  // hosts that Slurm must not choose
  std::optional<Account> account{};     // of its processes; none: the daemon's
  model::SlurmRequest asked{};          // by the run, instead of the daemon's own options
  std::filesystem::path folder{};       // the attempt's, for the script and its output
};

// The comment of the job, by which a daemon finds it again. The number of nodes is part of it,
// because Slurm takes failed hosts out of a job.
struct SlurmJobName {
  model::AttemptName attempt;
  int nodes = 0;
  bool operator==(const SlurmJobName&) const = default;
};
std::string slurm_comment(const std::string& installation, const SlurmJobName& job);
// None: the job is not one of this installation.
std::optional<SlurmJobName> job_in_comment(std::string_view comment,
                                           const std::string& installation);

// The name of the step of a node.
std::string slurm_step_name(int index);
// Written by the script when the step of a node has ended: the exit code of srun.
std::filesystem::path step_end_file(const std::filesystem::path& node_folder);
// Written by the script before it starts the step of a node, if Slurm has chosen the hosts: the
// name of its host.
std::filesystem::path step_host_file(const std::filesystem::path& node_folder);
std::filesystem::path job_script_file(const std::filesystem::path& attempt_folder);
std::filesystem::path job_output_file(const std::filesystem::path& attempt_folder);

std::vector<std::string> sbatch_command(const SlurmJobRequest& job, const SlurmJobOptions& options);
std::string job_script(const SlurmJobRequest& job, const SlurmJobOptions& options);

}  // namespace lockstep::engine
