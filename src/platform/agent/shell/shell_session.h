// ShellSession: what a session of ssh on a node gets. The agent writes it to a file (0600), and
// `lockstep shell-session FILE` starts the shell with it.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "base/os/spawn.h"
#include "text/record.h"

namespace lockstep::agent {

struct ShellSession {
  std::vector<std::string> prefix;  // before the shell and its arguments: enters the ranks' image
  std::map<std::string, std::string> environment;
  std::string folder;

  static constexpr auto fields() {
    return record<ShellSession>(
        field("prefix", &ShellSession::prefix, "program that starts the shell; empty: none"),
        field("environment", &ShellSession::environment, "variables"),
        field("folder", &ShellSession::folder, "where it starts"));
  }
};

// That of the node whose local rank 0 is this program; `wrapper`: the first words of its command
// that start the others. It lacks the variables that make a process a rank: a program that is tried
// out is one process, and no second rank 0.
ShellSession shell_session(const ProcessSpec& rank, const std::vector<std::string>& wrapper);

}  // namespace lockstep::agent
