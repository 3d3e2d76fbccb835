// PendingCall: what one call of torch.distributed started, from the communicator's pending parts to
// the last copy into the caller's tensors. Shared by the handle that torch holds (work.h) and, when
// nobody waits for it, by the thread that brings it to its end (finisher.h).
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
#include "comm/collective/pending.h"

namespace lockstep {

struct CallParts {
  std::string_view what;  // "all_reduce", for errors: text that lives for ever
  CallMode mode = CallMode::nonblocking;
  std::chrono::milliseconds allowed{};  // how long to wait when nobody says; 0: as the group does
  std::vector<at::Tensor> outputs{};    // what the caller finds in result() and in the future
  std::vector<at::Tensor> memory{};     // what else must live until all is done
  std::vector<Pending> pendings{};
  std::vector<std::pair<at::Tensor, at::Tensor>> copies{};  // {to, from}, once all went well
  // Of receives from any source, who that is: they write it. Shared by the parts of a batch.
  std::vector<std::shared_ptr<int>> sources{};

  // Nothing to do if they are one and the same tensor.
  void copy(const at::Tensor& to, const at::Tensor& from) {
    if (!to.is_same(from)) copies.emplace_back(to, from);
  }
  // Memory for what comes for these tensors of one size, in their order: their own if they lie so,
  // else new, to be copied to them.
  at::Tensor receive_into(const std::vector<at::Tensor>& tensors);
  // Makes one call of both.
  void append(CallParts other);
};

class PendingCall {
 public:
  explicit PendingCall(CallParts parts);

  const std::vector<at::Tensor>& outputs() const { return outputs_; }
  // Who sent, once it is ready: of one receive from any source alone.
  std::optional<int> source() const;

  // All parts are done; settle() does not wait.
  bool ready() const;
  // Waits for all parts, which the communicator bounds, and finishes. Always the same answer.
  Result<void> settle();
  // The same, but gives up at the deadline with `timeout`; the call goes on.
  Result<void> settle_by(Deadline deadline, Duration allowed);
  // Calls back once, when all parts are done: on the communicator's thread, or now.
  void when_ready(std::function<void()> callback) const;
  // Drops what was kept alive beside the outputs. On a thread that may destroy Python's tensors.
  void release();

 private:
  const std::string_view what_;
  const std::vector<at::Tensor> outputs_;
  const std::vector<std::shared_ptr<int>> sources_;  // kept until the pendings are done
  const std::vector<Pending> pendings_;

  Mutex mutex_;  // guards what follows; held while the copies are made
  bool settled_ LS_GUARDED_BY(mutex_) = false;
  Result<void> result_ LS_GUARDED_BY(mutex_);
  std::vector<std::pair<at::Tensor, at::Tensor>> copies_ LS_GUARDED_BY(mutex_);
  std::vector<at::Tensor> memory_ LS_GUARDED_BY(mutex_);
};

}  // namespace lockstep
