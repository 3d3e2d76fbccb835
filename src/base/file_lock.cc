#include "base/file_lock.h"

#include <cerrno>
#include <charconv>
#include <cstdint>
#include <string>
#include <string_view>

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/files.h"
#include "base/format.h"
#include "base/processes.h"

namespace lockstep {
namespace {

namespace fs = std::filesystem;

constexpr ::useconds_t kTryAgain = 5'000;

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

// Over what stood there, and only then cut: on a full disk a block that is given up may not come
// back.
Result<void> sign_lock(const Fd& lock) {
  const auto self = find_process(::getpid());
  const auto words = format("{} {}\n", ::getpid(), self ? self->started : 0);
  const auto size = static_cast<::off_t>(words.size());
  if (::pwrite(lock.get(), words.data(), words.size(), 0) == size &&
      ::ftruncate(lock.get(), size) == 0)
    return {};
  return os_error("writing into a lock's file", errno);
}

std::optional<pid_t> holder_of_lock(const fs::path& file) {
  const auto words = read_file(file);
  if (!words || !is_locked(file)) return std::nullopt;
  pid_t pid = 0;
  std::uint64_t started = 0;
  const char* end = words->data() + words->size();
  const char* blank = std::from_chars(words->data(), end, pid).ptr;
  if (blank == end || *blank != ' ') return std::nullopt;
  std::from_chars(blank + 1, end, started);
  const auto process = find_process(pid);
  return process && process->started == started ? std::optional(pid) : std::nullopt;
}

}  // namespace lockstep
