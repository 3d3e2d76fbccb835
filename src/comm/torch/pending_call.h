// PendingCall: the state of one call of torch.distributed, from the communicator's futures to the
// last copy or computation into the caller's tensors. Shared by the handle that torch has (work.h)
// and, when no caller waits for it, by the thread that completes it (completion_thread.h).
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include <ATen/core/Tensor.h>

#include "base/clock.h"
#include "base/mutex.h"
#include "base/result.h"
#include "comm/collective/call_mode.h"
#include "comm/collective/operation_future.h"
#include "comm/torch/record_function/call_event.h"

namespace lockstep::comm {

struct CallParts {
  std::string_view operation;  // "all_reduce", for errors: text with static lifetime
  CallMode mode = CallMode::nonblocking;
  std::chrono::milliseconds timeout{};  // of a wait without its own; 0: the group's
  std::vector<at::Tensor> outputs{};    // the tensors of result() and of the future
  std::vector<at::Tensor> memory{};     // other memory that must live until all is done
  std::vector<OperationFuture> futures{};
  std::vector<std::pair<at::Tensor, at::Tensor>> copies{};  // {to, from}, after all succeeded
  std::vector<std::function<void()>> computations{};        // after the copies; they may raise
  // For receives from any source: the receives write the source here. Shared by the parts of a
  // batch.
  std::vector<std::shared_ptr<int>> sources{};
  // While a profiler runs. Shared by the threads that may end them.
  std::vector<std::shared_ptr<CallEvent>> events{};

  // Begins the call's event, if a profiler runs.
  void record(at::TensorList inputs) { record_as(operation, inputs); }
  void record_as(std::string_view name, at::TensorList inputs);
  // Ends the call's event when all its futures are done, also if nothing waits for them.
  void end_event_when_done() const;
  // Does nothing if they are the same tensor.
  void copy(const at::Tensor& to, const at::Tensor& from) {
    if (!to.is_same(from)) copies.emplace_back(to, from);
  }
  // Memory to receive these tensors of one size, in their order: their own if it is adjacent, else
  // new memory, which is copied to them.
  at::Tensor receive_buffer_for(const std::vector<at::Tensor>& tensors);
  // Merges both into one call.
  void append(CallParts other);
};

class PendingCall {
 public:
  explicit PendingCall(CallParts parts);

  const std::vector<at::Tensor>& outputs() const { return outputs_; }
  // The sender, once the call is ready; only for a single receive from any source.
  std::optional<int> source() const;

  // All parts are done; wait_and_finish() does not wait.
  bool ready() const;
  // Waits for all parts, which the communicator bounds, and finishes. It always returns the same
  // result.
  Result<void> wait_and_finish();
  // The same, but returns `timeout` at the deadline; the call continues.
  Result<void> wait_and_finish_until(Deadline deadline, Duration timeout);
  // Calls back once, when all parts are done: on the communicator's thread, or now.
  void on_ready(std::function<void()> callback) const;
  // Drops all memory but the outputs. Call it on a thread that may destroy Python's tensors.
  void release();

 private:
  const std::string_view operation_;
  const std::vector<at::Tensor> outputs_;
  const std::vector<std::shared_ptr<int>> sources_;  // kept until the futures are done
  const std::vector<OperationFuture> futures_;
  const std::vector<std::shared_ptr<CallEvent>> events_;

  Mutex mutex_;  // guards what follows; held while the copies and computations are made
  bool finished_ LS_GUARDED_BY(mutex_) = false;
  Result<void> result_ LS_GUARDED_BY(mutex_);
  std::vector<std::pair<at::Tensor, at::Tensor>> copies_ LS_GUARDED_BY(mutex_);
  std::vector<std::function<void()>> computations_ LS_GUARDED_BY(mutex_);
  std::vector<at::Tensor> memory_ LS_GUARDED_BY(mutex_);
};

}  // namespace lockstep::comm
