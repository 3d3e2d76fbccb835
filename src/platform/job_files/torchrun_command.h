// The command line of torchrun as a run.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "platform/job_files/shell_line.h"
#include "platform/job_files/taken_run.h"

namespace lockstep::job_files {

// torchrun, or python -m torch.distributed.run or .launch.
bool is_torchrun(const std::vector<ShellWord>& words);
std::vector<ShellWord> as_words(const std::vector<std::string>& texts);

// Sets nodes, devices, rank_loss_retries and command. `gpus`: of each node, for
// `--nproc-per-node gpu`, if the caller knows it. Values of options that are left out may be
// unknown.
Result<void> apply_torchrun(const std::vector<ShellWord>& words, std::optional<int> gpus,
                            TakenRun& run);

}  // namespace lockstep::job_files
