// Mutex and its lock, annotated for clang's -Wthread-safety; state is grouped below its guard:
//   Mutex mutex_;                                     // guards what follows
//   std::deque<Event> queue_ LS_GUARDED_BY(mutex_);
#pragma once

#include <condition_variable>
#include <mutex>

#include "base/clock.h"

#if defined(__clang__)
#define LS_THREAD_ANNOTATION(x) __attribute__((x))
#else
#define LS_THREAD_ANNOTATION(x)
#endif
#define LS_GUARDED_BY(x) LS_THREAD_ANNOTATION(guarded_by(x))
#define LS_REQUIRES(...) LS_THREAD_ANNOTATION(requires_capability(__VA_ARGS__))
#define LS_EXCLUDES(...) LS_THREAD_ANNOTATION(locks_excluded(__VA_ARGS__))

namespace lockstep {

class LS_THREAD_ANNOTATION(capability("mutex")) Mutex {
 public:
  void lock() LS_THREAD_ANNOTATION(acquire_capability()) { mutex_.lock(); }
  void unlock() LS_THREAD_ANNOTATION(release_capability()) { mutex_.unlock(); }
  bool try_lock() LS_THREAD_ANNOTATION(try_acquire_capability(true)) { return mutex_.try_lock(); }

 private:
  friend class Condition;
  std::mutex mutex_;
};

class LS_THREAD_ANNOTATION(scoped_lockable) Lock {
 public:
  explicit Lock(Mutex& mutex) LS_THREAD_ANNOTATION(acquire_capability(mutex)) : mutex_(mutex) {
    mutex_.lock();
  }
  ~Lock() LS_THREAD_ANNOTATION(release_capability()) { mutex_.unlock(); }
  Lock(const Lock&) = delete;
  Lock& operator=(const Lock&) = delete;

 private:
  Mutex& mutex_;
};

// Takes the mutex, retrying while it is held and keep_trying() returns true; false if it was not
// taken.
class LS_THREAD_ANNOTATION(scoped_lockable) TryLock {
 public:
  explicit TryLock(Mutex& mutex) LS_THREAD_ANNOTATION(no_thread_safety_analysis)
      : mutex_(mutex), held_(mutex.try_lock()) {}
  template <class KeepTrying>
  TryLock(Mutex& mutex, KeepTrying keep_trying) LS_THREAD_ANNOTATION(no_thread_safety_analysis)
      : mutex_(mutex), held_(mutex.try_lock()) {
    while (!held_ && keep_trying()) held_ = mutex_.try_lock();
  }
  ~TryLock() LS_THREAD_ANNOTATION(no_thread_safety_analysis) {
    if (held_) mutex_.unlock();
  }
  TryLock(const TryLock&) = delete;
  TryLock& operator=(const TryLock&) = delete;
  explicit operator bool() const { return held_; }

 private:
  Mutex& mutex_;
  bool held_;
};

// A condition variable whose every wait has a bound.
class Condition {
 public:
  void notify_all() { condition_.notify_all(); }
  void notify_one() { condition_.notify_one(); }
  // Waits for a notification or the deadline; false if the deadline came first. May wake
  // spuriously, so call it in a loop that tests the state. Predicates are written as such loops
  // because clang cannot see which lock is held inside a lambda.
  bool wait_until(Mutex& mutex, const Deadline& deadline) LS_REQUIRES(mutex) {
    std::unique_lock<std::mutex> held(mutex.mutex_, std::adopt_lock);
    auto status = condition_.wait_until(held, deadline.at());
    held.release();
    return status == std::cv_status::no_timeout;
  }

 private:
  std::condition_variable condition_;
};

}  // namespace lockstep
