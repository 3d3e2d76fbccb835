// The program that a run would start, looked for as its agents will, so that a slip of the pen is
// told before anything is queued.
#pragma once

#include "base/result.h"
#include "platform/core/model/run.h"

namespace lockstep {

// The working folder is there, and the command's first word is a program: a path below the working
// folder, or a name in the run's PATH. For clusters whose nodes see this machine's files.
Result<void> check_startable(const RunSpec& spec);

}  // namespace lockstep
