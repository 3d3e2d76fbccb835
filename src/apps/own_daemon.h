// The user's own daemon as commands see it: its folder, whether it runs, how it is started and
// reached.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "platform/client/client.h"
#include "platform/host/home.h"

namespace lockstep {

// The daemon's folder, whether it is there already or not. What can never become one, or is not
// this user's alone to write to, is refused. Makes a missing or damaged pointer to it again while
// its daemon runs.
Result<Home> find_home();
// The daemon's client. With none running, starts the user's own on this machine and says so on
// standard error; never from a rank, nor where a daemon of another machine serves the home.
Result<Client> connect();
// The client of a daemon that runs, and nothing where none does: none is started. Waits for one
// that begins, or writes its file again; standard error says so where its answer is late.
Result<std::optional<Client>> find_running(const Home& home);
// Makes the daemon's folder, if it is not there; an error when a daemon could not write to it, or
// when one of another machine serves this home.
Result<void> prepare(const Home& home);
// Starts `lockstep serve` with these further arguments, detached; returns when it answers, or says
// what its log says.
Result<Client> start_daemon(const Home& home, const std::vector<std::string>& arguments);
// The running program's own path.
Result<std::string> own_program();

}  // namespace lockstep
