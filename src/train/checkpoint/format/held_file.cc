#include "train/checkpoint/format/held_file.h"

#include <cerrno>
#include <mutex>
#include <set>
#include <utility>

#include <fcntl.h>
#include <pthread.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/check.h"
#include "base/files.h"
#include "base/format.h"

namespace lockstep {
namespace {

// The descriptors that a forked child closes: a worker that loads data may outlive a rank, and
// would keep its lock. Never destroyed: a fork may happen while the program ends.
struct Registry {
  std::mutex mutex;
  std::set<int> fds;
};

Registry& registry();

void before_fork() { registry().mutex.lock(); }
void in_parent() { registry().mutex.unlock(); }
void in_child() {
  for (const int fd : registry().fds) ::close(fd);
  registry().fds.clear();
  registry().mutex.unlock();
}

Registry& registry() {
  static Registry* const instance = [] {
    LS_CHECK(pthread_atfork(before_fork, in_parent, in_child) == 0);
    return new Registry;
  }();
  return *instance;
}

}  // namespace

Result<Fd> HeldFile::create(const std::filesystem::path& path, bool& locked) {
  auto fd = TRY(open_file(path, O_RDWR | O_CREAT | O_EXCL, 0644));
  locked = ::flock(fd.get(), LOCK_EX | LOCK_NB) == 0;
  return fd;
}

HeldFile::HeldFile(Fd fd, Duration beat) : fd_(std::move(fd)), owner_(::getpid()) {
  {
    const std::lock_guard lock(registry().mutex);
    registry().fds.insert(fd_.get());
  }
  thread_ = std::thread([this, beat] { run(beat); });
}

HeldFile::~HeldFile() {
  if (!is_ours()) {
    fd_.release();     // closed at the fork
    thread_.detach();  // not in this process
    return;
  }
  {
    const Lock lock(mutex_);
    stopping_ = true;
  }
  changed_.notify_all();
  thread_.join();
  const std::lock_guard lock(registry().mutex);
  registry().fds.erase(fd_.get());
}

bool HeldFile::is_ours() const { return ::getpid() == owner_; }

void HeldFile::run(Duration beat) {
  const Lock lock(mutex_);
  while (!stopping_) {
    // A failure is one beat less: the next may succeed.
    (void)::futimens(fd_.get(), nullptr);
    const auto next = Deadline::after(beat);
    while (!stopping_ && changed_.wait_until(mutex_, next)) continue;
  }
}

}  // namespace lockstep
