// Finisher: the thread that brings calls to their end for which a future waits, or nobody.
//
// A future's callbacks are the user's: they may take Python's lock or start collectives, so they
// must not run on the communicator's thread, on which those collectives depend. And a call
// holds tensors, the last reference to which may be a Python object's: destroying it takes Python's
// lock, which a thread that waits for us may hold. Hence a call that has ended is kept until
// a thread of the user's comes by and sweeps. Cost: a hop between threads for each future, none for
// plain waits; what nobody waited for lives until the next call on the group.
#pragma once

#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <thread>
#include <vector>

#include "base/mutex.h"
#include "comm/torch/pending_call.h"

namespace lockstep {

class Finisher {
 public:
  Finisher() = default;
  Finisher(const Finisher&) = delete;
  Finisher& operator=(const Finisher&) = delete;

  // When the call is ready: settles it, calls `then` with its result (if there is one) and
  // keeps both until they are swept. Never blocks, so that it may be called from any thread.
  using Then = std::function<void(const Result<void>&)>;
  static void finish(const std::shared_ptr<Finisher>& finisher, std::shared_ptr<PendingCall> call,
                     Then then);
  // Destroys what has ended. On a thread of the user's.
  void sweep();
  // Ends what was handed over and joins the thread; what comes later is finished by its caller.
  // Once there was a call, the finisher lives until this is called.
  void stop();

 private:
  struct Task {
    std::shared_ptr<PendingCall> call;  // shared with the handle that torch holds
    Then then;
  };
  static void add(const std::shared_ptr<Finisher>& finisher, Task task);
  void run();
  std::optional<Task> next();  // nothing when it is time to stop
  void carry_out(Task task);

  Mutex mutex_;  // guards what follows
  std::deque<Task> waiting_ LS_GUARDED_BY(mutex_);
  std::vector<Task> ended_ LS_GUARDED_BY(mutex_);
  bool stopping_ LS_GUARDED_BY(mutex_) = false;
  std::thread thread_ LS_GUARDED_BY(mutex_);  // started by the first task
  Condition changed_;
};

}  // namespace lockstep
