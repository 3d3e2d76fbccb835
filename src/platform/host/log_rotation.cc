#include "platform/host/log_rotation.h"

#include <cerrno>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/os/fd.h"
#include "base/os/files.h"

namespace lockstep::host {
namespace {

namespace fs = std::filesystem;

bool goes_to(int fd, const struct stat& file) {
  struct stat found{};
  return ::fstat(fd, &found) == 0 && found.st_dev == file.st_dev && found.st_ino == file.st_ino;
}

Result<void> rename_file(const fs::path& from, const fs::path& to) {
  if (::rename(from.c_str(), to.c_str()) == 0) return {};
  return os_error("renaming " + from.string(), errno);
}

}  // namespace

fs::path rotated_log(const fs::path& log) { return log.string() + ".1"; }

Result<void> rotate_own_log(const fs::path& log, Bytes most) {
  struct stat file{};
  if (::stat(log.c_str(), &file) != 0 || !goes_to(STDERR_FILENO, file)) return {};
  if (file.st_size <= most.count()) return {};
  const fs::path fresh = log.string() + ".new";
  // The new file is opened before the old one is renamed: if no file can be opened, nothing
  // changes.
  const Fd opened = TRY(open_file(fresh, O_WRONLY | O_CREAT | O_APPEND | O_TRUNC));
  TRY(rename_file(log, rotated_log(log)));
  TRY(rename_file(fresh, log));
  for (int fd : {STDOUT_FILENO, STDERR_FILENO})
    if (goes_to(fd, file) && ::dup2(opened.get(), fd) < 0)
      return os_error("going on in " + log.string(), errno);
  return {};
}

}  // namespace lockstep::host
