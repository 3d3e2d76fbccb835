#include "platform/engine/local/agent_program.h"

#include <cerrno>
#include <string_view>
#include <system_error>
#include <utility>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/os/fd.h"
#include "base/os/files.h"
#include "base/os/spawn.h"
#include "platform/host/node_files.h"
#include "text/convert.h"

namespace lockstep::engine {
namespace {

using std::filesystem::path;

constexpr const char* kOwnFile = "/proc/self/exe";

void set_identity(const Account& account, Environment& environment) {
  environment["HOME"] = account.home;
  environment["USER"] = environment["LOGNAME"] = account.name;
  environment["SHELL"] = account.shell;
}

// The agent's sockets are in XDG_RUNTIME_DIR, if its user has that.
void set_account(const Account& account, ProcessSpec& agent) {
  agent.account = account;
  Environment& environment = agent.environment;
  set_identity(account, environment);
  const path runtime = format("/run/user/{}", account.user);
  std::error_code ignored;
  environment.erase("XDG_RUNTIME_DIR");
  environment.erase("TMPDIR");
  if (std::filesystem::is_directory(runtime, ignored))
    environment["XDG_RUNTIME_DIR"] = runtime.string();
}

}  // namespace

Environment agent_environment() {
  Environment kept = own_environment();
  std::erase_if(kept, [](const auto& variable) {
    const std::string& name = variable.first;
    const bool is_needed =
        name == "XDG_RUNTIME_DIR" || name == "TMPDIR" || name.ends_with("SAN_OPTIONS");
    return !is_needed && !is_user_variable(name) && !is_node_variable(name) &&
           !name.starts_with("LOCKSTEP_");
  });
  return kept;
}

host::LaunchSpec with_variables_of(const Account& account, host::LaunchSpec launch) {
  const auto user = launch.env.find("USER");
  if (user != launch.env.end() && user->second != account.name) set_identity(account, launch.env);
  return launch;
}

Result<void> give_to(const Account& account, const path& file) {
  if (::chown(file.c_str(), account.user, account.group) == 0) return {};
  return os_error(format("giving {} to {}", file.string(), account.name), errno);
}

Result<void> let_pass(const path& home, const path& folder) {
  for (path above = folder.parent_path();; above = above.parent_path()) {
    if (::chmod(above.c_str(), 0711) != 0) return os_error("opening " + above.string(), errno);
    if (above == home || above == above.parent_path()) return {};
  }
}

// The name ends with " (deleted)" if the file was replaced since this program was started.
Result<AgentProgram> AgentProgram::own() {
  std::error_code failure;
  const path name = std::filesystem::read_symlink(kOwnFile, failure);
  if (failure) return Error{Code::internal, format("reading {}: {}", kOwnFile, failure.message())};
  return AgentProgram{.name = name.string(), .file = kOwnFile};
}

std::string node_token(const std::string& installation, const model::NodeName& node) {
  return installation + ":" + text(node);
}

// The agent creates the lock file before anything else.
bool has_started(const path& node_folder) {
  std::error_code ignored;
  return std::filesystem::exists(host::NodeFiles{node_folder}.lock(), ignored);
}

Result<void> start_agent(const AgentProgram& program, const host::LaunchSpec& launch,
                         const std::string& token, const AgentConfinement& confinement) {
  const auto& account = confinement.account;
  const host::NodeFiles files{launch.node_folder};
  TRY(write_launch_file(account ? with_variables_of(*account, launch) : launch));
  const path file = files.launch_file();
  const Fd log = TRY(open_file(files.agent_log(), O_WRONLY | O_CREAT | O_APPEND));
  if (account)
    for (const path& owned : {file, files.agent_log(), files.folder}) TRY(give_to(*account, owned));
  ProcessSpec agent{.command = {program.name, "agent", file.string()},
                    .file = program.file,
                    .environment = agent_environment(),
                    .folder = "/",
                    .output = log.get(),
                    .cgroups = confinement.cgroups};
  agent.environment[std::string(host::kNodeToken)] = token;
  if (account) set_account(*account, agent);
  return spawn_detached(agent);
}

Result<void> write_launch_file(const host::LaunchSpec& launch) {
  TRY(make_folders(launch.node_folder));
  return write_file(host::NodeFiles{launch.node_folder}.launch_file(),
                    dump_json(to_json(launch), Indent::two));
}

Result<host::LaunchSpec> read_launch_file(const path& node_folder) {
  const path file = host::NodeFiles{node_folder}.launch_file();
  const auto read = [&]() -> Result<host::LaunchSpec> {
    return from_json<host::LaunchSpec>(TRY(parse_json(TRY(read_file(file)))),
                                       UnknownFields::ignore);
  };
  auto launch = read();
  if (!launch) return std::move(launch).error().with_context(file.string());
  return launch;
}

}  // namespace lockstep::engine
