// CompletionThread: completes calls on which a future waits, or no caller waits.
//
// A future's callbacks are the user's. They may take Python's lock or start collectives, so they
// must not run on the communicator's thread, on which those collectives depend. A call also has
// tensors, the last reference to which may be a Python object's. Destroying it takes Python's lock,
// which a thread that waits for this one may hold. So a completed call is kept until a user's
// thread calls destroy_completed(). Cost: a thread switch for each future, none for plain waits. A
// call without a waiter is kept until the next call on the group.
#pragma once

#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <thread>
#include <vector>

#include "base/mutex.h"
#include "comm/torch/pending_call.h"

namespace lockstep::comm {

class CompletionThread {
 public:
  CompletionThread() = default;
  CompletionThread(const CompletionThread&) = delete;
  CompletionThread& operator=(const CompletionThread&) = delete;

  // When the call is ready: finishes it, calls `then` with its result (if given) and keeps both
  // until destroy_completed(). Never blocks, so it may be called from any thread.
  using Continuation = std::function<void(const Result<void>&)>;
  static void complete_when_ready(const std::shared_ptr<CompletionThread>& completion_thread,
                                  std::shared_ptr<PendingCall> call, Continuation then);
  // Destroys completed calls. Call it on a thread of the user.
  void destroy_completed();
  // Completes all queued calls and joins the thread; later calls are completed by their caller.
  // Once there was a call, the thread runs until this is called.
  void stop();

 private:
  struct Task {
    std::shared_ptr<PendingCall> call;  // shared with the handle that torch holds
    Continuation then;
  };
  static void add(const std::shared_ptr<CompletionThread>& completion_thread, Task task);
  void run();
  std::optional<Task> next();  // nullopt when the thread shall stop
  void run_task(Task task);

  Mutex mutex_;  // guards what follows
  std::deque<Task> tasks_ LS_GUARDED_BY(mutex_);
  std::vector<Task> completed_ LS_GUARDED_BY(mutex_);
  bool stopping_ LS_GUARDED_BY(mutex_) = false;
  std::thread thread_ LS_GUARDED_BY(mutex_);  // started by the first task
  Condition changed_;
};

}  // namespace lockstep::comm
