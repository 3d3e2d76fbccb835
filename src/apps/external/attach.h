// `lockstep agent --attach`, which a rank of another launcher starts: finds the agent of its job on
// this host, or becomes it, and prints how to reach it (docs/design/external-runs.md).
#pragma once

#include "base/result.h"

namespace lockstep::cli {

// Prints one line of JSON for the process that has started this one:
//   {"socket":"/.../ranks","rank":3,"local_rank":1}
//   {"error":"LOCKSTEP_URL: ...","rank":3}              the exit code is then not 0
// In the agent, which is a child of this process, it returns when the job has ended.
Result<int> attach_rank();

}  // namespace lockstep::cli
