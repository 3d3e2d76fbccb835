// The agent: the process that manages one node of one attempt. It starts the node's ranks, collects
// their output, metrics and ends, reports to the daemon, and executes its commands
// (docs/design/agent.md).
#pragma once

#include <filesystem>
#include <string>

#include "base/result.h"
#include "platform/agent/link/daemon_link.h"
#include "platform/host/launch_spec.h"

namespace lockstep::agent {

// Properties of the node that its launch file cannot know.
struct AgentPlace {
  std::string address{};                // where other nodes reach it; empty: as the launch says
  std::filesystem::path make_folder{};  // made before the ranks start; empty: none
  bool prints_log = false;              // also to standard output, for `kubectl logs`
};

// `lockstep agent LAUNCH_FILE`: makes this process the agent (own session, log in agent.log) and
// returns the program's exit code once the daemon sends `leave`. Returns 0 at once if another
// process is the node's agent already.
Result<int> run_agent(const std::filesystem::path& launch_file, const AgentPlace& place = {});

// The same with the caller's link to the daemon.
Result<int> run_agent(const host::LaunchSpec& launch, DaemonLink& link);

}  // namespace lockstep::agent
