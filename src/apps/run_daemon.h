// The daemon: all its parts, each over those that it needs, until it is told to stop.
#pragma once

#include "apps/served.h"
#include "base/result.h"
#include "platform/host/home.h"

namespace lockstep {

// Serves until SIGTERM or SIGINT; gives the program's exit code. Agents and ranks go on. Refused
// while another daemon holds the home.
Result<int> run_daemon(const Home& home, const Served& served);

}  // namespace lockstep
