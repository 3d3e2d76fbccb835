// The command line of horovodrun as a run.
#pragma once

#include <vector>

#include "base/result.h"
#include "platform/job_files/shell_line.h"
#include "platform/job_files/taken_run.h"

namespace lockstep::job_files {

// horovodrun, or python -m horovod.runner.launch.
bool is_horovodrun(const std::vector<ShellWord>& words);

// Sets nodes, devices, rank_loss_retries, env and command. The ranks find lockstep.horovod under
// the name horovod.
Result<void> apply_horovodrun(const std::vector<ShellWord>& words, TakenRun& run);

}  // namespace lockstep::job_files
