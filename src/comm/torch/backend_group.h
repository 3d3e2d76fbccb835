// BackendGroup: the state of a backend while its group exists: the communicator, the completion
// thread of its calls, and the part that serves a device. It can be left while calls run, and
// together with all others of the process.
#pragma once

#include <memory>

#include <sys/types.h>

#include "base/mutex.h"
#include "base/result.h"
#include "comm/collective/communicator.h"
#include "comm/torch/completion_thread.h"
#include "comm/torch/device_group.h"

namespace lockstep::comm {

class BackendGroup {
 public:
  // Shared with leave_all(), which must not access a group that is being destroyed.
  static std::shared_ptr<BackendGroup> create(std::unique_ptr<Communicator> communicator,
                                              DeviceGroup::Options device);
  ~BackendGroup() { leave(); }

  // Null after the group was left. Shared with running calls on other threads, so that leave() does
  // not destroy it during their use.
  std::shared_ptr<Communicator> communicator();
  // Shared with works, which may outlive the group.
  const std::shared_ptr<CompletionThread>& completion_thread() const { return completion_thread_; }

  const std::shared_ptr<DeviceGroup>& device_group() const { return device_group_; }

  // Ends running calls and leaves, within two seconds, or four if kernels of a device run. Does
  // nothing in a forked child.
  void leave();
  // leave() for all groups of this process.
  static void leave_all();

 private:
  BackendGroup(std::unique_ptr<Communicator> communicator, DeviceGroup::Options device);

  const pid_t pid_;
  const std::shared_ptr<CompletionThread> completion_thread_;
  const std::shared_ptr<DeviceGroup> device_group_;  // shared with its thread
  Mutex mutex_;                                      // guards what follows
  std::shared_ptr<Communicator> communicator_ LS_GUARDED_BY(mutex_);
};

}  // namespace lockstep::comm
