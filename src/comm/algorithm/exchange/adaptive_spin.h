// AdaptiveSpin: how many times a thread polls for another thread's progress before it yields its
// core. Where each thread has its own core, polling is fastest. Where threads share a core, the
// awaited thread may need that core, and polling only delays it. The number of threads that share
// the cores of a host cannot be known in advance. A thread that returns from a yield only after
// some time has shared its core.
#pragma once

#include <algorithm>
#include <chrono>

#include <sched.h>

namespace lockstep::comm {

class AdaptiveSpin {
 public:
  // Polls before a yield.
  AdaptiveSpin(int most, int on_shared_core)
      : most_(most), on_shared_core_(on_shared_core), spins_(most) {}

  int spins() const { return spins_; }

  void yield() {
    constexpr auto kAlone = std::chrono::microseconds(5);
    const auto before = std::chrono::steady_clock::now();
    sched_yield();
    const bool alone = std::chrono::steady_clock::now() - before < kAlone;
    spins_ = alone ? std::min(most_, 2 * spins_) : on_shared_core_;
  }

 private:
  const int most_, on_shared_core_;
  int spins_;
};

}  // namespace lockstep::comm
