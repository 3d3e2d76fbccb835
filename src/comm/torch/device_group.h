// DeviceGroup: the part of a group that serves the tensors of a device, over the backend that is
// registered for it (device_backend.h). Our own communicator serves the CPU, and watches the peers:
// when it ends, because a rank is lost or leaves, the device's backend is aborted. Its kernels
// would wait for the lost rank without end, and the host with them. Kernels that need that rank no
// more first get a short time to end.
#pragma once

#include <atomic>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <thread>
#include <vector>

#include <ATen/core/Tensor.h>
#include <c10/core/Stream.h>
#include <torch/csrc/distributed/c10d/Backend.hpp>

#include "base/mutex.h"
#include "base/result.h"
#include "base/units.h"
#include "comm/collective/operation_future.h"
#include "comm/group/group_ranks.h"

namespace lockstep::comm {

class DeviceGroup {
 public:
  using WorkPtr = c10::intrusive_ptr<c10d::Work>;
  // A store for this group alone. Its waits end when the group ends, if it can.
  using OpenStore = std::function<Result<c10::intrusive_ptr<c10d::Store>>(const OperationFuture&)>;
  struct Options {
    int rank = 0;
    int size = 1;
    GroupRanks members = {};
    Duration timeout = std::chrono::minutes(10);
    bool recoverable = false;
    OpenStore open_store = nullptr;
  };

  // group_end: the end of the communicator of the same ranks.
  DeviceGroup(Options options, OperationFuture group_end);
  DeviceGroup(const DeviceGroup&) = delete;
  DeviceGroup& operator=(const DeviceGroup&) = delete;

  // True for a tensor whose device has a backend.
  static bool serves(const at::Tensor& tensor);
  static bool serves(const std::vector<at::Tensor>& tensors) {
    return !tensors.empty() && serves(tensors.front());
  }

  using StartCall = std::function<WorkPtr(c10d::Backend&)>;
  // Starts a call of the device's backend, which the first call makes. It, and the handle that it
  // returns, fail with the group's reason when the group has ended. The device type is the same for
  // all calls.
  static WorkPtr call(const std::shared_ptr<DeviceGroup>& group, at::Device device,
                      const StartCall& start);

  // Before the group is left in order: peers may need the kernels of this rank. Waits until those
  // that the stream of the last call waits for are complete, the group has ended, or the bound
  // passes.
  void drain(Duration bound);
  // The backend will be aborted as soon as the communicator ends.
  void give_up() { gives_up_ = true; }
  // Returns when the backend is aborted, if the communicator has ended.
  void join();

 private:
  static c10::intrusive_ptr<c10d::Backend> find_or_make_backend(
      const std::shared_ptr<DeviceGroup>& group, at::Device device);
  void abort_when_ended(const c10::intrusive_ptr<c10d::Backend>& backend);
  // True if all calls with a living handle are complete.
  bool all_complete();

  const Options options_;
  const OperationFuture group_end_;
  std::atomic<bool> gives_up_ = false;
  // Set before the abort: what is complete afterwards may be wrong. Shared with the handles.
  const std::shared_ptr<std::atomic<bool>> aborted_ = std::make_shared<std::atomic<bool>>(false);
  Mutex mutex_;  // guards what follows; held while the backend is made
  c10::intrusive_ptr<c10d::Backend> backend_ LS_GUARDED_BY(mutex_);
  std::optional<c10::Stream> stream_ LS_GUARDED_BY(mutex_);  // of the last call
  // In their order; without those at the front that were complete at the last call.
  std::deque<c10::weak_intrusive_ptr<c10d::Work>> running_ LS_GUARDED_BY(mutex_);
  std::thread watcher_ LS_GUARDED_BY(mutex_);  // shares this object; none in a forked child
};

}  // namespace lockstep::comm
