#include "base/os/fork_guard.h"

#include <mutex>
#include <set>

#include <pthread.h>
#include <unistd.h>

#include "base/check.h"

namespace lockstep {
namespace {

// Locked by fork() itself, so that the child finds it consistent. Never destroyed: a fork may
// happen while the program ends.
struct Registry {
  std::mutex mutex;
  std::multiset<int> fds;
};

Registry& registry();

void before_fork() { registry().mutex.lock(); }
void in_parent() { registry().mutex.unlock(); }
void in_child() {
  fork_detail::forks.fetch_add(1, std::memory_order_relaxed);
  for (const int fd : registry().fds) ::close(fd);
  registry().fds.clear();  // the numbers are the child's own now
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

ForkGuard::ForkGuard() : forks_at_creation_(fork_detail::forks.load(std::memory_order_relaxed)) {
  (void)registry();
}

ForkGuard::~ForkGuard() {
  if (in_child()) return;
  const std::lock_guard lock(registry().mutex);
  for (const int fd : fds_) registry().fds.erase(registry().fds.find(fd));
}

void ForkGuard::add(int fd) {
  const std::lock_guard lock(registry().mutex);
  registry().fds.insert(fd);
  fds_.push_back(fd);
}

}  // namespace lockstep
