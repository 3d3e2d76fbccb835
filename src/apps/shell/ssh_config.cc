#include "apps/shell/ssh_config.h"

#include <cstdlib>
#include <filesystem>
#include <utility>

#include <sys/stat.h>

#include "apps/daemon/own_daemon.h"
#include "apps/shell/ssh_access.h"
#include "base/format.h"
#include "base/os/files.h"

namespace lockstep::cli {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kFirstWords = "Match originalhost *.lockstep ";

// OpenSSH reads the file of the account, whatever HOME is; a user has both at one place.
Result<fs::path> config_file() {
  const char* home = std::getenv("HOME");
  if (home == nullptr || *home == '\0')
    return Error{Code::invalid, "HOME is not set, so there is no ~/.ssh/config"};
  return fs::path(home) / ".ssh" / "config";
}

std::string doubled_quotes(const std::string& command) {
  std::string text;
  for (const char each : command)
    text += each == '"' || each == '\\' ? std::string("\\") + each : std::string(1, each);
  return text;
}

}  // namespace

// The program by its path, because editors start ssh with a PATH of their own. Match exec runs
// before the files of Include are read.
Result<std::string> ssh_config_lines() {
  const fs::path hosts = TRY(ssh_hosts_folder());
  return format(
      "{}exec \"{} ssh --prepare %n\"\n"
      "  Include \"{}/*.conf\"\n"
      "Match all\n",
      kFirstWords, doubled_quotes(shell_quoted(TRY(own_program()))), hosts.string());
}

Result<bool> add_ssh_config_lines() {
  const fs::path file = TRY(config_file());
  const std::string lines = TRY(ssh_config_lines());
  TRY(make_folders(file.parent_path()));
  auto known = read_file(file);
  if (!known && known.error().code != Code::not_found) return std::move(known).error();
  const std::string before = std::move(known).value_or("");
  if (before.find(lines) != std::string::npos) return false;
  if (before.find(kFirstWords) != std::string::npos)
    return Error{Code::already_exists,
                 format("{} has such lines for another program: replace them by those that "
                        "`lockstep ssh --config` prints",
                        file.string())};
  struct stat info{};
  const bool exists = ::stat(file.c_str(), &info) == 0;
  TRY(write_file(fs::exists(file) ? fs::canonical(file) : file,
                 lines + (before.empty() ? "" : "\n") + before,
                 exists ? info.st_mode & 0777 : 0600));
  return true;
}

}  // namespace lockstep::cli
