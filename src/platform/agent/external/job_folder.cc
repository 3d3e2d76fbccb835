#include "platform/agent/external/job_folder.h"

#include <algorithm>
#include <cerrno>
#include <string>
#include <system_error>
#include <utility>

#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/format.h"
#include "base/os/file_lock.h"
#include "platform/host/node_files.h"

namespace lockstep::agent {
namespace {

namespace fs = std::filesystem;

// Does not follow a symbolic link, which any user may have made in /tmp.
bool is_private(const fs::path& folder) {
  struct stat found{};
  return ::lstat(folder.c_str(), &found) == 0 && S_ISDIR(found.st_mode) &&
         found.st_uid == ::geteuid() && (found.st_mode & 077) == 0;
}

bool make_private(const fs::path& folder) {
  return ::mkdir(folder.c_str(), 0700) == 0 || (errno == EEXIST && is_private(folder));
}

}  // namespace

Result<JobFolder> JobFolder::open(std::string_view job) {
  const auto candidates = host::socket_folders(format("external:{}", job));
  for (const fs::path& folder : candidates)
    if (make_private(folder)) return JobFolder(folder);
  return Error{Code::denied,
               format("{} cannot be made, or belongs to another user; set XDG_RUNTIME_DIR to a "
                      "folder of yours on this host",
                      candidates.empty() ? "a folder in /tmp" : candidates.back().string())};
}

fs::path JobFolder::report_socket(int rank) const { return host::report_socket(path_, rank); }

Result<std::optional<Fd>> JobFolder::try_become_agent() const {
  Fd held = TRY(try_lock(lock(), Duration(0)));
  struct stat file{};
  // A file without a name: the agent before has just removed it with the folder.
  if (!held || ::fstat(held.get(), &file) != 0 || file.st_nlink == 0) return std::optional<Fd>();
  std::error_code failed;
  for (const auto& entry : fs::directory_iterator(path_, failed))
    if (entry.path() != lock()) fs::remove_all(entry.path(), failed);
  return std::optional(std::move(held));
}

bool JobFolder::has_agent() const {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  const std::string path = presence_socket();
  if (path.size() >= sizeof address.sun_path) return false;
  std::ranges::copy(path, address.sun_path);
  const Fd socket(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  return ::connect(socket.get(), reinterpret_cast<sockaddr*>(&address), sizeof address) == 0;
}

void JobFolder::remove() const {
  std::error_code ignored;
  fs::remove_all(path_, ignored);
}

}  // namespace lockstep::agent
