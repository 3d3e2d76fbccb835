// Work: the handle on a call that torch.distributed holds and waits on.
#pragma once

#include <chrono>
#include <exception>
#include <memory>
#include <vector>

#include <torch/csrc/distributed/c10d/Work.hpp>

#include "base/mutex.h"
#include "base/result.h"
#include "comm/torch/finisher.h"
#include "comm/torch/pending_call.h"

namespace lockstep {

// What torch raises for it: ValueError for a request that makes no sense, else DistBackendError.
[[noreturn]] void raise(const Error& error);
// The same for what befell a call under way, whose arguments made sense: always DistBackendError.
[[noreturn]] void raise_failure(const Error& error);

class Work : public c10d::Work {
 public:
  // allowed: how long wait() may take when it is not told; 0: as long as the communicator allows.
  Work(int rank, c10d::OpType type, std::uint64_t sequence, std::chrono::milliseconds allowed,
       std::shared_ptr<PendingCall> call, std::shared_ptr<Finisher> finisher);
  // The call goes on without its handle.
  ~Work() override;

  bool isCompleted() override;
  bool isSuccess() const override;
  std::exception_ptr exception() const override;
  // Of a recv from any source that is done: who sent.
  int sourceRank() const override;
  std::vector<at::Tensor> result() override { return call_->outputs(); }
  void synchronize() override { wait(); }
  // Raises what befell the call, or DistBackendError once the timeout is over.
  bool wait(std::chrono::milliseconds timeout = kNoTimeout) override;
  c10::intrusive_ptr<c10::ivalue::Future> getFuture() override;
  std::uint64_t getSequencenumber() const override { return sequence_; }

 private:
  const std::uint64_t sequence_;
  const std::chrono::milliseconds allowed_;
  const std::shared_ptr<PendingCall> call_;   // shared with the finisher
  const std::shared_ptr<Finisher> finisher_;  // shared with the group, which may go first

  Mutex future_mutex_;  // guards what follows
  c10::intrusive_ptr<c10::ivalue::Future> future_ LS_GUARDED_BY(future_mutex_);
};

}  // namespace lockstep
