// RemoteShell: runs shell scripts on other hosts. OpenSsh does it by the program ssh; tests have
// another one.
#pragma once

#include <filesystem>
#include <optional>
#include <string>

#include "base/result.h"
#include "base/units.h"

namespace lockstep::host_setup {

struct RemoteScript {
  std::string target;  // as ssh takes it: [user@]host, or a name of ~/.ssh/config
  std::string script;  // for /bin/sh; one line, because csh may be the login shell
  std::optional<std::filesystem::path> input;  // the script's standard input; without it: nothing
  Duration limit{};                            // after it the call is given up
  std::string secret{};                        // the standard input, if it is not empty
};

class RemoteShell {
 public:
  virtual ~RemoteShell() = default;
  // The script's standard output, without what the host's .bashrc prints before it. An error says
  // why the host was not reached, or what the script printed last, and what to do. From any thread.
  virtual Result<std::string> run(const RemoteScript& call) = 0;
};

}  // namespace lockstep::host_setup
