// Group: what a backend holds while its group lasts: the communicator, and the finisher of its
// calls. It can be left while calls are under way, and with all others of the process at once.
#pragma once

#include <memory>

#include <sys/types.h>

#include "base/mutex.h"
#include "base/result.h"
#include "comm/collective/communicator.h"
#include "comm/torch/finisher.h"

namespace lockstep {

class Group {
 public:
  // Shared with leave_all(), which must not meet a group that is being destroyed.
  static std::shared_ptr<Group> create(std::unique_ptr<Communicator> communicator);
  ~Group() { leave(); }

  // Null once the group was left. Shared with calls under way on other threads: leave() must not
  // pull it away from under them.
  std::shared_ptr<Communicator> communicator();
  // Shared with works, which may outlive the group.
  const std::shared_ptr<Finisher>& finisher() const { return finisher_; }

  // Ends what is under way and leaves, within two seconds. Nothing in a forked child.
  void leave();
  // leave() for all groups of this process.
  static void leave_all();

 private:
  explicit Group(std::unique_ptr<Communicator> communicator);

  const pid_t pid_;
  const std::shared_ptr<Finisher> finisher_;
  Mutex mutex_;  // guards what follows
  std::shared_ptr<Communicator> communicator_ LS_GUARDED_BY(mutex_);
};

}  // namespace lockstep
