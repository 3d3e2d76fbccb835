// Pending: a handle on an operation under way. Copies share the operation; dropping all of them
// does not cancel it, and the operation's buffers must live until it is done either way.
#pragma once

#include <functional>
#include <memory>

#include "base/result.h"

namespace lockstep {

class Pending {
 public:
  using Callback = std::function<void(const Result<void>&)>;

  // One that is done already, such as a refused call.
  static Pending finished(Result<void> result);

  bool done() const;
  // Returns when the operation is done. Bounded: each operation ends by its communicator's
  // time-out, counted from when its turn came (from submission for send and recv). May be called
  // more than once and from several threads, but not from a callback.
  Result<void> wait() const;
  // Calls back once: on the progress thread when it is done, or at once when it is done already.
  // The callback must be short, must not wait on a Pending, and may submit operations.
  void on_done(Callback callback) const;

 private:
  friend class Completer;
  class State;
  explicit Pending(std::shared_ptr<State> state);
  std::shared_ptr<State>
      state_;  // shared by the submitter's copies and the driver; null: done well
};

// The other end of a Pending: whoever carries the operation out completes it, once.
class Completer {
 public:
  Completer();
  Pending pending() const;
  void complete(Result<void> result) const;

 private:
  std::shared_ptr<Pending::State> state_;
};

}  // namespace lockstep
