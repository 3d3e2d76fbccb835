// A forked child, such as a DataLoader worker, inherits descriptors and may outlive its rank: it
// would keep the rank's connections open and its file locks held. A ForkGuard closes its
// descriptors in every forked child, and distinguishes such a child from the process that made the
// guard.
#pragma once

#include <atomic>
#include <vector>

namespace lockstep {

namespace fork_detail {
inline std::atomic<unsigned> forks = 0;  // from the first process with a guard to this one
}

class ForkGuard {
 public:
  ForkGuard();
  ForkGuard(const ForkGuard&) = delete;
  ForkGuard& operator=(const ForkGuard&) = delete;
  ~ForkGuard();  // unregisters them; destroy it before the descriptors are closed
  void add(int fd);
  // True in a child, or a child's child, of the process that made the guard. Costs one load;
  // getpid() is a system call.
  bool in_child() const {
    return fork_detail::forks.load(std::memory_order_relaxed) != forks_at_creation_;
  }

 private:
  const unsigned forks_at_creation_;
  std::vector<int> fds_;
};

}  // namespace lockstep
