// ShellTarget: a node of a run, as users and ssh name it.
#pragma once

#include <string>

#include "base/result.h"
#include "platform/core/model/ids.h"

namespace lockstep::cli {

struct ShellTarget {
  model::RunId run;
  int node = 0;
  std::string profile{};  // of the daemon; empty: the chosen one

  bool operator==(const ShellTarget&) const = default;
};

// RUN or RUN/NODE, as node_argument() reads it.
Result<ShellTarget> shell_target(const std::string& words);

// NUMBER[-NODE][.PROJECT][.at.PROFILE].lockstep, for ssh.
std::string ssh_alias(const ShellTarget& target);
Result<ShellTarget> parse_ssh_alias(const std::string& alias);

}  // namespace lockstep::cli
