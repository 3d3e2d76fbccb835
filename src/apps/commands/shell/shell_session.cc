#include "platform/agent/shell/shell_session.h"

#include <algorithm>
#include <cstdlib>
#include <iterator>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include <unistd.h>

#include "apps/cli/subcommand.h"
#include "apps/cli/terminal.h"
#include "apps/shell/ssh_access.h"
#include "base/format.h"
#include "base/os/environment.h"
#include "base/os/files.h"
#include "text/convert.h"

namespace lockstep::cli {
namespace {

constexpr std::string_view kSftp = "internal-sftp";
constexpr const char* kSftpServers[] = {"/usr/lib/openssh/sftp-server",
                                        "/usr/libexec/openssh/sftp-server",
                                        "/usr/libexec/sftp-server", "/usr/lib/ssh/sftp-server"};

// sshd sets these for this session, or its client sends them.
bool is_of_session(std::string_view variable) {
  constexpr std::string_view kNames[] = {"TERM", "LANG", "HOME", "USER", "LOGNAME", "SHELL"};
  return std::ranges::find(kNames, variable) != std::end(kNames) || variable.starts_with("LC_") ||
         variable.starts_with("SSH_");
}

std::string variable_or(const char* name, const std::string& other) {
  const char* value = std::getenv(name);
  return value == nullptr || *value == '\0' ? other : value;
}

// That of the ranks, and what is of the session.
void set_environment(const agent::ShellSession& session) {
  for (const auto& [name, value] : own_environment())
    if (!is_of_session(name)) ::unsetenv(name.c_str());
  for (const auto& [name, value] : session.environment)
    ::setenv(name.c_str(), value.c_str(), is_of_session(name) ? 0 : 1);
}

Result<std::vector<std::string>> command_of(const agent::ShellSession& session) {
  const std::string wanted = variable_or("SSH_ORIGINAL_COMMAND", "");
  ::unsetenv("SSH_ORIGINAL_COMMAND");
  if (wanted == kSftp) {  // of the host, also if the ranks are in an image
    for (const char* server : kSftpServers)
      if (::access(server, X_OK) == 0) return std::vector<std::string>{server};
    return Error{Code::not_found, "the host has no sftp-server: install openssh-sftp-server there"};
  }
  std::vector<std::string> command = session.prefix;
  // The shell of the account may not be in the image.
  command.push_back(session.prefix.empty() ? variable_or("SHELL", "/bin/sh") : "/bin/sh");
  if (!wanted.empty()) command.insert(command.end(), {"-c", wanted});
  return command;
}

Result<int> start_session(const std::string& file) {
  const auto session = TRY(
      from_json<agent::ShellSession>(TRY(parse_json(TRY(read_file(file)))), UnknownFields::ignore));
  set_environment(session);
  const auto command = TRY(command_of(session));
  if (::chdir(session.folder.c_str()) != 0)
    print_to_stderr(
        format("lockstep: the folder of the ranks, {}, is missing here", session.folder));
  return execute(command);
}

}  // namespace

// `lockstep shell-session FILE`: started by the sshd of a node, not by people.
void add_shell_session(CLI::App& app, Action& action) {
  auto* command =
      app.add_subcommand("shell-session", "Start a session of a shell (sshd calls this)");
  command->group("");
  auto file = std::make_shared<std::string>();
  command->add_option("file", *file, "what the session gets")->required()->type_name(kFileValue);
  command->callback([&action, file] { action = [file] { return start_session(*file); }; });
}

}  // namespace lockstep::cli
