#include "base/os/file_lock.h"

#include <cerrno>
#include <cstdio>

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/os/files.h"

namespace lockstep {
namespace {

namespace fs = std::filesystem;

constexpr ::useconds_t kTryAgain = 5'000;

// Beyond the end of any file, so that it conflicts with no lock of a library that uses the file.
constexpr ::off_t kOwnerByte = ::off_t{1} << 62;

struct flock owner_record() {
  struct flock byte{};
  byte.l_type = F_WRLCK;
  byte.l_whence = SEEK_SET;
  byte.l_start = kOwnerByte;
  byte.l_len = 1;
  return byte;
}

}  // namespace

Result<Fd> try_lock(const fs::path& file, Duration patience) {
  Fd lock = TRY(open_file(file, O_RDWR | O_CREAT));
  for (Deadline deadline = Deadline::after(patience);; ::usleep(kTryAgain)) {
    if (::flock(lock.get(), LOCK_EX | LOCK_NB) == 0) return lock;
    if (errno != EWOULDBLOCK && errno != EINTR) return os_error("locking " + file.string(), errno);
    if (deadline.passed()) return Fd();
  }
}

bool is_locked(const fs::path& file) {
  const auto lock = open_file(file, O_RDWR);
  return lock && ::flock(lock->get(), LOCK_SH | LOCK_NB) != 0 && errno == EWOULDBLOCK;
}

// The kernel names the owner of a record lock (fcntl), but not the owner of a flock lock.
Result<void> record_lock_owner(const Fd& lock) {
  struct flock byte = owner_record();
  if (::fcntl(lock.get(), F_SETLK, &byte) == 0) return {};
  return os_error("signing a lock", errno);
}

std::optional<pid_t> lock_owner(const fs::path& file) {
  const auto lock = open_file(file, O_RDWR);
  struct flock byte = owner_record();
  if (!lock || ::fcntl(lock->get(), F_GETLK, &byte) != 0) return std::nullopt;
  if (byte.l_type == F_UNLCK || byte.l_pid <= 0) return std::nullopt;
  return byte.l_pid;
}

}  // namespace lockstep
