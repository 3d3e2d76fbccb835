// A forked child (a DataLoader worker, say) inherits our sockets and would keep a dead rank's
// connections open, so that nobody learns of the death. Descriptors registered here are closed in
// every forked child.
#pragma once

#include <vector>

namespace lockstep {

class ForkGuard {
 public:
  ForkGuard() = default;
  ForkGuard(const ForkGuard&) = delete;
  ForkGuard& operator=(const ForkGuard&) = delete;
  ~ForkGuard();  // forgets them; to be destroyed before the descriptors are closed
  void add(int fd);

 private:
  std::vector<int> fds_;
};

}  // namespace lockstep
