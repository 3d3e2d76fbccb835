// The user's own daemon as commands see it: its folder, whether it runs, how it is started and
// reached.
#pragma once

#include <string>
#include <vector>

#include "base/result.h"
#include "platform/client/client.h"
#include "platform/host/home.h"

namespace lockstep {

// The daemon's folder, whether it is there already or not. What can never become one is refused.
Result<Home> find_home();
// The daemon's client. With none running, starts the user's own on this machine and says so on
// standard error.
Result<Client> connect();
// Makes the daemon's folder, if it is not there; an error when a daemon could not write to it.
Result<void> prepare(const Home& home);
// Starts `lockstep serve` with these further arguments, detached; returns when it answers, or says
// what its log says.
Result<Client> start_daemon(const Home& home, const std::vector<std::string>& arguments);
// The running program's own path.
Result<std::string> own_program();

}  // namespace lockstep
