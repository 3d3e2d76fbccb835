// The daemon: creates all its parts, each with the parts that it needs, and runs until it is
// stopped.
#pragma once

#include "apps/daemon/serve_config.h"
#include "base/result.h"
#include "platform/host/home.h"

namespace lockstep::cli {

// Serves until SIGTERM or SIGINT; returns the program's exit code. Agents and ranks go on. Fails
// while another daemon holds the home.
Result<int> run_daemon(const host::Home& home, const ServeConfig& served);

}  // namespace lockstep::cli
