// HeldRun: a run that keeps devices for a user's shells: its ranks wait until no shell was open for
// a while. For `lockstep run --debug` and `lockstep notebook`.
#pragma once

#include <string>
#include <vector>

#include "apps/shell/ssh_access.h"
#include "base/result.h"
#include "platform/client/client.h"

namespace lockstep::cli {

inline constexpr auto kIdleDefault = "10m";
inline constexpr int kConnectionLost = 255;  // as ssh returns

// The command of its ranks.
std::vector<std::string> hold_command(const std::string& idle);

// Makes the spec of such ranks one of class debug, unless it has another class than normal, with
// this name if it has none.
Result<void> make_held_run(model::RunSpec& spec, const std::string& name);

// Waits until the run runs, and prepares its first node for ssh. Prints what the run waits for.
// Code::cancelled: Ctrl-C. The caller must hold an InterruptHandler.
Result<SshAccess> await_shell(client::Client& client, const model::RunId& run);

// The exit code of the program, which gets this terminal.
Result<int> run_in_terminal(const std::vector<std::string>& command);

// Asks the daemon to stop the run, which its user no longer needs.
Result<void> stop_held_run(client::Client& client, const model::RunId& run);

}  // namespace lockstep::cli
