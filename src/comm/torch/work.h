// Work: the handle of a call, which torch.distributed keeps and waits on.
#pragma once

#include <chrono>
#include <exception>
#include <memory>
#include <vector>

#include <torch/csrc/distributed/c10d/Work.hpp>

#include "base/mutex.h"
#include "base/result.h"
#include "comm/torch/completion_thread.h"
#include "comm/torch/pending_call.h"

namespace lockstep::comm {

// Raises torch's exception for it: ValueError for invalid arguments, else DistBackendError.
[[noreturn]] void raise(const Error& error);
// The same for a failure of a running call, whose arguments were valid: always DistBackendError.
[[noreturn]] void raise_failure(const Error& error);
std::exception_ptr as_exception(const Error& error);

class Work : public c10d::Work {
 public:
  // timeout: the time-out of wait() without its own; 0: the communicator's.
  Work(int rank, c10d::OpType type, std::uint64_t sequence, std::chrono::milliseconds timeout,
       std::shared_ptr<PendingCall> call, std::shared_ptr<CompletionThread> completion_thread);
  // The call continues without its handle.
  ~Work() override;

  bool isCompleted() override;
  bool isSuccess() const override;
  std::exception_ptr exception() const override;
  // The sender of a completed recv from any source.
  int sourceRank() const override;
  std::vector<at::Tensor> result() override { return call_->outputs(); }
  void synchronize() override { wait(); }
  // Raises the failure of the call, or DistBackendError after the timeout.
  bool wait(std::chrono::milliseconds timeout = kNoTimeout) override;
  c10::intrusive_ptr<c10::ivalue::Future> getFuture() override;
  std::uint64_t getSequencenumber() const override { return sequence_; }

 private:
  const std::uint64_t sequence_;
  const std::chrono::milliseconds timeout_;
  const std::shared_ptr<PendingCall> call_;  // shared with the completion thread
  const std::shared_ptr<CompletionThread>
      completion_thread_;  // shared with the group, which may be destroyed first

  Mutex future_mutex_;  // guards what follows
  c10::intrusive_ptr<c10::ivalue::Future> future_ LS_GUARDED_BY(future_mutex_);
};

}  // namespace lockstep::comm
