#include "apps/run/origin.h"

#include <array>
#include <cerrno>
#include <cstddef>
#include <cstdio>
#include <string>

#include <pwd.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/format.h"

namespace lockstep::cli {
namespace {

constexpr std::size_t kChangesMax = 16 << 20;  // bytes

struct CommandOutput {
  std::string first_line;
  bool succeeded = false;
};

// Quotes any text as one word of a shell.
std::string quoted(const std::string& word) {
  std::string result = "'";
  for (char c : word) result += c == '\'' ? "'\\''" : std::string(1, c);
  return result + "'";
}

// timeout(1) limits it: in a large tree on a slow file system git may take minutes.
std::string git_command(const std::filesystem::path& folder, int seconds,
                        const std::string& question) {
  return format("GIT_OPTIONAL_LOCKS=0 timeout -k 1 {} git -C {} {} </dev/null 2>/dev/null", seconds,
                quoted(folder.string()), question);
}

CommandOutput run_git(const std::filesystem::path& folder, const std::string& question) {
  FILE* pipe = ::popen(git_command(folder, 2, question).c_str(), "re");
  if (pipe == nullptr) return {};
  CommandOutput said;
  std::array<char, 256> buffer{};
  if (std::fgets(buffer.data(), buffer.size(), pipe) != nullptr) said.first_line = buffer.data();
  const bool more = std::fgetc(pipe) != EOF;  // then SIGPIPE may end it, because its reader is gone
  const int status = ::pclose(pipe);
  said.succeeded = more || (WIFEXITED(status) && WEXITSTATUS(status) == 0);
  while (said.first_line.ends_with('\n')) said.first_line.pop_back();
  return said;
}

}  // namespace

std::string user_name() {
  const passwd* user = ::getpwuid(::getuid());
  return user == nullptr ? format("{}", ::getuid()) : user->pw_name;
}

model::Origin origin_of(const std::filesystem::path& working_folder) {
  model::Origin origin{.user = user_name(), .git_commit = "", .git_dirty = false};
  const CommandOutput commit = run_git(working_folder, "rev-parse HEAD");
  if (!commit.succeeded) return origin;
  origin.git_commit = commit.first_line;
  const CommandOutput changes = run_git(working_folder, "status --porcelain --untracked-files=no");
  origin.git_dirty = !changes.succeeded || !changes.first_line.empty();
  return origin;
}

Result<std::string> uncommitted_changes(const std::filesystem::path& working_folder) {
  // No driver, no text conversion and no prefix of the user's configuration: others must read it.
  const auto command = git_command(
      working_folder, 5,
      "diff --binary --no-color --no-ext-diff --no-textconv --src-prefix=a/ --dst-prefix=b/ HEAD");
  FILE* pipe = ::popen(command.c_str(), "re");
  if (pipe == nullptr) return os_error("running git", errno);
  std::string changes;
  std::array<char, 1 << 16> buffer{};
  for (std::size_t read; (read = std::fread(buffer.data(), 1, buffer.size(), pipe)) > 0;) {
    changes.append(buffer.data(), read);
    if (changes.size() > kChangesMax) break;
  }
  const int status = ::pclose(pipe);
  if (changes.size() > kChangesMax) return Error{Code::invalid, "they have more than 16 MiB"};
  if (!WIFEXITED(status) || WEXITSTATUS(status) != 0)
    return Error{Code::unavailable, "git did not list them within 5 seconds"};
  return changes;
}

}  // namespace lockstep::cli
