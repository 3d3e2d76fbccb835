// OpenSsh: the program ssh, with the user's configuration, keys, agent and jump hosts.
#pragma once

#include "platform/host_setup/remote_shell.h"

namespace lockstep::host_setup {

class OpenSsh : public RemoteShell {
 public:
  // It never asks: a password or an unknown host key is an error that says what to do. A connection
  // without an answer for a minute ends; until then a slow one is no error.
  Result<std::string> run(const RemoteScript& call) override;
};

}  // namespace lockstep::host_setup
