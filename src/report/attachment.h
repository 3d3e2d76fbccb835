// Attachment: the connection of a rank that another launcher has started to the agent of its job on
// this host (docs/design/external-runs.md). It is open for as long as the process lives, and tells
// the agent how the process ends.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "base/result.h"

namespace lockstep::report {

// Starts `lockstep agent --attach`, which finds or starts the agent, and connects to it; takes up
// to half a minute. At the end of the process, exit(3) waits for two seconds at most until the
// agent has delivered all reports, and sends the exit code. The first call attaches the process;
// others have the same result. Any thread; waits for a call of another one.
//
// The result is the report socket of this rank.
Result<std::filesystem::path> attach_process();

// Lines of the agent for the user, since the last call. Does not wait.
std::vector<std::string> attachment_notes();

// True if the launcher's variables name rank 0, or none.
bool is_first_rank();

}  // namespace lockstep::report
