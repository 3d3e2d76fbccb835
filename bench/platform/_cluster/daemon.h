// A process with the parts of a daemon, whose engine starts simulated agents.
#pragma once

#include <filesystem>

#include "base/os/fd.h"

namespace lockstep::bench {

// Serves `folder` with so many hosts of one device until SIGTERM; the exit code of the process.
// Writes the launch spec of each node, as a line of JSON, to `launches`, and reads the names of
// nodes that have ended from `ended`.
int run_daemon(const std::filesystem::path& folder, int hosts, Fd launches, Fd ended);

}  // namespace lockstep::bench
