// OperationFuture: a handle on a running operation. Copies share the operation. Destroying all of
// them does not cancel it, and its buffers must stay valid until it is done in any case.
#pragma once

#include <functional>
#include <memory>

#include "base/result.h"

namespace lockstep::comm {

class OperationFuture {
 public:
  using Callback = std::function<void(const Result<void>&)>;

  // An operation that is done already, such as a refused call.
  static OperationFuture completed(Result<void> result);

  bool done() const;
  // Returns when the operation is done. Bounded: each operation ends by its communicator's
  // time-out, counted from its start (from submission for send and recv). May be called more than
  // once and from several threads, but not from a callback.
  Result<void> wait() const;
  // Calls back once: on the progress thread when the operation is done, or at once if it is done
  // already. The callback must be short, must not wait on an OperationFuture, and may submit
  // operations.
  void on_done(Callback callback) const;

 private:
  friend class OperationPromise;
  class State;
  explicit OperationFuture(std::shared_ptr<State> state);
  std::shared_ptr<State>
      state_;  // shared by the submitter's copies and the executing thread; null: done, successful
};

// The other end of an OperationFuture. The executing thread completes it, once.
class OperationPromise {
 public:
  OperationPromise();
  OperationFuture future() const;
  void complete(Result<void> result) const;

 private:
  std::shared_ptr<OperationFuture::State> state_;
};

}  // namespace lockstep::comm
