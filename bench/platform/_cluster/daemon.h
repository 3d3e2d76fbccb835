// A process with the parts of a daemon, whose engine starts simulated agents.
#pragma once

#include <filesystem>

namespace lockstep::bench {

// In the folder; files, because a pipe that is full would block the daemon.
inline constexpr auto kLaunches = "launches";  // the launch spec of each node as a line of JSON
inline constexpr auto kEnded = "ended";        // the names of nodes that have ended

// Serves `folder` with so many hosts of one device until SIGTERM; the exit code of the process.
int run_daemon(const std::filesystem::path& folder, int hosts);

}  // namespace lockstep::bench
