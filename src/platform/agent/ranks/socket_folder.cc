#include "platform/agent/ranks/socket_folder.h"

#include <cerrno>
#include <cstdlib>
#include <string>
#include <system_error>

#include <sys/stat.h>
#include <unistd.h>

#include "base/log.h"
#include "platform/host/node_files.h"

namespace lockstep::agent {
namespace {

namespace fs = std::filesystem;

// Does not follow a symbolic link, which any user may have created in /tmp.
bool is_ours(const fs::path& folder) {
  struct stat found{};
  return ::lstat(folder.c_str(), &found) == 0 && S_ISDIR(found.st_mode) &&
         found.st_uid == ::geteuid();
}

bool create_or_empty(const fs::path& folder) {
  if (::mkdir(folder.c_str(), 0700) == 0) return true;
  if (errno != EEXIST || !is_ours(folder)) return false;
  std::error_code failed;
  for (fs::directory_iterator entry(folder, failed), end; !failed && entry != end;
       entry.increment(failed)) {
    std::error_code ignored;
    fs::remove_all(entry->path(), ignored);
  }
  return !failed && ::chmod(folder.c_str(), 0700) == 0;
}

}  // namespace

Result<SocketFolder> SocketFolder::create(std::string_view token) {
  for (const fs::path& folder : host::socket_folders(token)) {
    if (create_or_empty(folder)) return SocketFolder(folder);
    LS_LOG(warning, "{} cannot be used for sockets", folder.string());
  }
  std::string name = "/tmp/lockstep-XXXXXX";
  if (::mkdtemp(name.data()) != nullptr) return SocketFolder(name);
  return os_error("making a folder for sockets in /tmp", errno);
}

SocketFolder::~SocketFolder() {
  std::error_code ignored;
  if (!path_.empty()) fs::remove_all(path_, ignored);
}

}  // namespace lockstep::agent
