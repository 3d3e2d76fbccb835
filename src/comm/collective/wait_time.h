// The time in which threads of this process waited for operations of its communicators. The rest of
// a training step is the rank's own, so it tells a slow rank from those that wait for it.
#pragma once

#include <chrono>

namespace lockstep::comm {

// Counts the time of its scope. One within another, on the same thread, counts nothing.
class WaitScope {
 public:
  WaitScope();
  ~WaitScope();
  WaitScope(const WaitScope&) = delete;
  WaitScope& operator=(const WaitScope&) = delete;

 private:
  const bool is_outermost_;
  std::chrono::steady_clock::time_point begun_;
};

// For operations whose caller waits elsewhere, such as on a future of torch: they run while the
// caller computes, and it waits from the last one that it submits until the last one is done.
void note_submitted();
void note_done();

// The time since the last call of this, of all threads.
std::chrono::nanoseconds take_wait_time();

}  // namespace lockstep::comm
