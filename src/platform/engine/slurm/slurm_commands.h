// SlurmCommands: calls Slurm's programs: sbatch, squeue, sinfo, scontrol, scancel.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace lockstep::engine {

class SlurmCommands {
 public:
  virtual ~SlurmCommands() = default;
  // The output of a program that ended well. Code::unavailable: Slurm did not answer, and the call
  // may have had its effect. Code::not_found: there is no such program. Code::denied: Slurm refused
  // the call, in its own words.
  virtual Result<std::string> run(const std::vector<std::string>& command) = 0;
};

// Those of this machine. They get the environment of an agent, and SLURM_CONF: a job inherits it.
class InstalledSlurm : public SlurmCommands {
 public:
  Result<std::string> run(const std::vector<std::string>& command) override;
};

// True if the words of a failed program say that slurmctld or munge did not answer. Another call
// may succeed.
bool is_slurm_away(std::string_view words);

// True if the words of sbatch name what Slurm's administrator or the daemon's options must change
// first, such as an unknown account. Another call would be refused too.
bool is_slurm_refusal(std::string_view words);

// Lines as one, of a bounded length.
std::string slurm_words(std::string_view output);
// The lines with errors, if there are any: srun prints warnings before them.
std::string slurm_error_words(std::string_view output);

}  // namespace lockstep::engine
