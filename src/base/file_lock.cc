#include "base/file_lock.h"

#include <cerrno>

#include <fcntl.h>
#include <sys/file.h>

#include "base/files.h"

namespace lockstep {

Result<Fd> try_lock(const std::filesystem::path& file) {
  Fd lock = TRY(open_file(file, O_RDWR | O_CREAT));
  if (::flock(lock.get(), LOCK_EX | LOCK_NB) == 0) return lock;
  if (errno == EWOULDBLOCK) return Fd();
  return os_error("locking " + file.string(), errno);
}

bool is_locked(const std::filesystem::path& file) {
  auto lock = open_file(file, O_RDWR);
  return lock && ::flock(lock->get(), LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK;
}

}  // namespace lockstep
