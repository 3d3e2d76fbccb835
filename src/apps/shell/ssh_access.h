// SshAccess: what the user's ssh needs for a node, in files of the user's folder
// ~/.config/lockstep/ssh: one key for all, and for each node a configuration, a certificate and the
// key that signs host keys.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "apps/shell/shell_target.h"
#include "base/result.h"
#include "platform/client/client.h"

namespace lockstep::cli {

struct SshAccess {
  std::filesystem::path config;  // for ssh -F
  std::string alias;             // the host's name in it
};

// Gets a new certificate from the daemon, and writes the files.
Result<SshAccess> prepare_ssh(client::Client& client, const ShellTarget& target);
// The same for the chosen daemon, or for that of the target's profile.
Result<SshAccess> prepare_ssh(const ShellTarget& target);
// The same for a name as parse_ssh_alias() reads it.
Result<SshAccess> prepare_ssh_alias(const std::string& alias);

// The folder of the files of nodes.
Result<std::filesystem::path> ssh_hosts_folder();

// A word for a shell.
std::string shell_quoted(const std::string& word);
std::string shell_quoted(const std::vector<std::string>& words);

// The command line of one of OpenSSH's programs: with the configuration, then these arguments.
std::vector<std::string> ssh_command(const std::string& program, const SshAccess& access,
                                     const std::vector<std::string>& arguments);
// Replaces this program. Returns only an error.
Error execute(const std::vector<std::string>& command);

}  // namespace lockstep::cli
