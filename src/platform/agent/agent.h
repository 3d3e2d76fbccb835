// The agent: the process that stands for one node of one attempt. It starts the node's ranks,
// collects their output, metrics and ends, tells the daemon, and does what that says
// (docs/design/agent.md).
#pragma once

#include <filesystem>

#include "base/result.h"
#include "platform/agent/daemon_link.h"
#include "platform/engine/launch.h"

namespace lockstep {

// `lockstep agent LAUNCH_FILE`: makes this process the agent (own session, log in agent.log) and
// gives the program's exit code once the daemon let it go. Returns at once, with 0, when another
// process is the node's agent already.
Result<int> run_agent(const std::filesystem::path& launch_file);

// The same with a link to the daemon of the caller's.
Result<int> run_agent(const Launch& launch, DaemonLink& link);

}  // namespace lockstep
