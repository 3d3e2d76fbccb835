// The lines of ~/.ssh/config with which ssh, sftp, scp, rsync and VS Code reach nodes by their
// names (docs/design/shell.md).
#pragma once

#include <string>

#include "base/result.h"

namespace lockstep::cli {

Result<std::string> ssh_config_lines();
// Writes them to the beginning of the user's ~/.ssh/config, unless they are there. The path of it.
// False: they were there.
Result<bool> add_ssh_config_lines();

}  // namespace lockstep::cli
