// The user's own daemon for commands: its folder, its state, its start and its client.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "platform/client/client.h"
#include "platform/host/home.h"

namespace lockstep::cli {

// The daemon's folder, which may not exist yet. Refuses a path that cannot become one, and a folder
// that other users may write to. Writes a missing or damaged pointer to it again while its daemon
// runs.
Result<host::Home> find_home();
// The client of the daemon that the user chose (client/chosen_daemon.h). If that is the user's own
// and it does not run, starts it on this machine and reports that on standard error. Never starts
// one from a rank, nor if a daemon of another machine serves the home.
Result<client::Client> connect_to_daemon();
// True if the user chose a daemon of another machine, by its address.
Result<bool> is_daemon_remote();
// The client of the same daemon, if it runs: starts none.
Result<std::optional<client::Client>> find_chosen_daemon();
// The client of a running daemon, and nothing if none runs: starts none. Waits for a daemon that is
// starting or rewrites its file; prints a message to standard error if its answer is late.
Result<std::optional<client::Client>> find_running_daemon(const host::Home& home);
// Creates the daemon's folder if it is missing. Fails if a daemon could not write to it, or if a
// daemon of another machine serves this home.
Result<void> prepare_home(const host::Home& home);
// Starts `lockstep serve` with these further arguments, detached. Returns when it answers; an error
// contains its last log line.
Result<client::Client> start_daemon(const host::Home& home,
                                    const std::vector<std::string>& arguments);
// The path of the running program.
Result<std::string> own_program();

}  // namespace lockstep::cli
