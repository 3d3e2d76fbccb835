// start_agent: starts the agent of a node as a process of this machine.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "base/os/account.h"
#include "base/os/environment.h"
#include "base/result.h"
#include "platform/host/launch_spec.h"

namespace lockstep::engine {

struct AgentProgram {
  std::string name;  // as lists of processes show it
  std::filesystem::path file;

  // This program itself, also after an upgrade has replaced its file.
  static Result<AgentProgram> own();
};

// The agent outlives the daemon, and others may read its environment. So it gets the variables of
// the user and of the machine, of paths to sockets, and Lockstep's own settings. It does not get
// other variables of the shell that started the daemon, such as cloud keys.
Environment agent_environment();

// Marks the processes of the node: <installation>:<generation>:<node>.
std::string node_token(const std::string& installation, const model::NodeName& node);

// True if an agent of the node ever ran.
bool has_started(const std::filesystem::path& node_folder);

// As which account an agent runs, and the control groups that it joins (ProcessSpec::cgroups).
struct AgentConfinement {
  std::optional<Account> account{};  // none: that of this process
  std::vector<std::filesystem::path> cgroups{};
};

// Writes the launch file and starts the agent, with the token in its environment. With an account
// it and its files belong to that one.
Result<void> start_agent(const AgentProgram& program, const host::LaunchSpec& launch,
                         const std::string& token, const AgentConfinement& confinement);

// The launch for ranks of this account: variables that describe another account, that of the shell
// in which the run was submitted, are replaced.
host::LaunchSpec with_variables_of(const Account& account, host::LaunchSpec launch);

// The file belongs to that account from now on.
Result<void> give_to(const Account& account, const std::filesystem::path& file);
// Others may pass through the folders above this one, up to the home, and list none of them.
Result<void> let_pass(const std::filesystem::path& home, const std::filesystem::path& folder);

// The node's folder with its launch file. Only its owner may read them: the file has secrets.
Result<void> write_launch_file(const host::LaunchSpec& launch);
// From its launch file. A newer Lockstep may have written further fields: they are ignored.
Result<host::LaunchSpec> read_launch_file(const std::filesystem::path& node_folder);

}  // namespace lockstep::engine
