// The observation of a node of a job, from the output of Slurm and the files of the node.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "platform/core/model/observation.h"
#include "platform/engine/slurm/slurm_output.h"

namespace lockstep::engine {

// From the folder of a node, read before Slurm listed the steps.
struct SlurmNodeFiles {
  std::string host;  // on which it was to start; empty: unknown
  bool slurm_chose_host = false;
  bool has_started = false;    // its agent ran
  bool step_ended = false;     // srun has ended
  std::string start_error{};   // what srun printed, if the agent did not run
  bool out_of_memory = false;  // Slurm or the kernel ended the step, or a part of it, for that
};

model::Observation observe_slurm_node(const SlurmJob& job, const SlurmStep* step,
                                      const SlurmNodeFiles& files,
                                      const std::vector<SlurmHost>& hosts);

// True if the output of srun and slurmstepd says that a step used too much memory.
bool tells_out_of_memory(std::string_view output);

// It waits in Slurm's queue.
bool is_slurm_job_pending(const SlurmJob& job);
// It has ended, and so have all its processes.
bool is_slurm_job_over(const SlurmJob& job);

}  // namespace lockstep::engine
