#include "platform/agent/shell/shell_session.h"

#include <filesystem>
#include <system_error>

#include <sys/types.h>

#include "base/format.h"
#include "base/utf8.h"

namespace lockstep::agent {
namespace {

constexpr std::string_view kOfRanks[] = {"RANK",
                                         "LOCAL_RANK",
                                         "WORLD_SIZE",
                                         "LOCAL_WORLD_SIZE",
                                         "GROUP_RANK",
                                         "MASTER_ADDR",
                                         "MASTER_PORT",
                                         "LOCKSTEP_TORCH_STORE",
                                         "LOCKSTEP_REPORT",
                                         "LOCKSTEP_RENDEZVOUS",
                                         "LOCKSTEP_SECRET_FILE",
                                         "LOCKSTEP_REPLACES",
                                         "LOCKSTEP_PROFILE_DIR",
                                         "LOCKSTEP_MEDIA_DIR",
                                         "TERM"};

// An image that runs as root has no user namespace of its own, and none can be entered twice.
bool has_own_users(pid_t container) {
  std::error_code failed;
  const auto theirs = std::filesystem::read_symlink(format("/proc/{}/ns/user", container), failed);
  return theirs != std::filesystem::read_symlink("/proc/self/ns/user", failed);
}

std::vector<std::string> enter_container(pid_t container, const std::string& folder) {
  std::vector<std::string> command = {"nsenter", "--target", format("{}", container), "--mount",
                                      "--wd=" + folder};
  if (has_own_users(container)) command.insert(command.end(), {"--user", "--preserve-credentials"});
  return command;
}

}  // namespace

ShellSession shell_session(const ProcessSpec& rank, const std::vector<std::string>& wrapper) {
  ShellSession session{.prefix = wrapper, .environment = {}, .folder = rank.folder.string()};
  for (const auto& [name, value] : rank.environment)
    if (is_utf8(value)) session.environment[name] = value;  // else its file would be no JSON
  for (const std::string_view name : kOfRanks) session.environment.erase(std::string(name));
  if (rank.container != 0) session.prefix = enter_container(rank.container, session.folder);
  return session;
}

}  // namespace lockstep::agent
