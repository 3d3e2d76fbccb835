#include "comm/collective/operation_future.h"

#include <atomic>
#include <vector>

#include <sched.h>

#include "base/clock.h"
#include "base/mutex.h"
#include "comm/collective/wait_time.h"

namespace lockstep::comm {
namespace {

// A small collective ends within this time, and sleeping and waking up takes about as long.
constexpr auto kYields = std::chrono::microseconds(50);
// The progress thread ends every operation; the loop only re-arms the bounded wait.
constexpr auto kWaitStep = std::chrono::seconds(60);

}  // namespace

class OperationFuture::State {
 public:
  bool done() const { return done_.load(std::memory_order_acquire); }
  const Result<void>& result() const { return result_; }  // once done

  void wait() {
    if (done()) return;
    const WaitScope waits;
    for (const auto bound = Deadline::after(kYields); !done() && !bound.passed();) sched_yield();
    if (done()) return;
    Lock lock(mutex_);
    while (!done()) finished_.wait_until(mutex_, Deadline::after(kWaitStep));
  }

  void on_done(Callback callback) {
    {
      Lock lock(mutex_);
      if (!done()) {
        callbacks_.push_back(std::move(callback));
        return;
      }
    }
    callback(result_);
  }

  void complete(Result<void> result) {
    std::vector<Callback> callbacks;
    {
      Lock lock(mutex_);
      result_ = std::move(result);
      done_.store(true, std::memory_order_release);
      callbacks.swap(callbacks_);
      finished_.notify_all();
    }
    for (const auto& callback : callbacks) callback(result_);
  }

 private:
  std::atomic<bool> done_ = false;
  Result<void> result_;  // constant once done_
  Mutex mutex_;          // guards what follows
  Condition finished_;
  std::vector<Callback> callbacks_ LS_GUARDED_BY(mutex_);
};

OperationFuture::OperationFuture(std::shared_ptr<State> state) : state_(std::move(state)) {}

OperationFuture OperationFuture::completed(Result<void> result) {
  if (result) return OperationFuture(nullptr);
  const OperationPromise promise;
  promise.complete(std::move(result));
  return promise.future();
}

bool OperationFuture::done() const { return !state_ || state_->done(); }

Result<void> OperationFuture::wait() const {
  if (!state_) return {};
  state_->wait();
  return state_->result();
}

void OperationFuture::on_done(Callback callback) const {
  if (state_)
    state_->on_done(std::move(callback));
  else
    callback({});
}

OperationPromise::OperationPromise() : state_(std::make_shared<OperationFuture::State>()) {}
OperationFuture OperationPromise::future() const { return OperationFuture(state_); }

// A waiting thread may destroy the promise as soon as the operation is done, while callbacks still
// run.
void OperationPromise::complete(Result<void> result) const {
  const auto state = state_;
  state->complete(std::move(result));
}

}  // namespace lockstep::comm
