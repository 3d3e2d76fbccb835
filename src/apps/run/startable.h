// Searches the program of a run as its agents will, so that a typing error is reported before the
// run is queued.
#pragma once

#include "base/result.h"
#include "platform/core/model/run.h"

namespace lockstep::cli {

// The working folder must exist, and so must a venv. The command's first word must be a program: a
// path below the working folder, or a name in the run's PATH or its venv. Programs of other
// environments are not looked for. For clusters whose nodes share this machine's files.
Result<void> check_startable(const model::RunSpec& spec);

}  // namespace lockstep::cli
