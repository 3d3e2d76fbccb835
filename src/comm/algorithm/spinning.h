// Spinning: for how long to look again and again for what another thread is about to do, before the
// core is given to others. Where each has a core of its own that is the fastest; where the core is
// shared, who is waited for may need it, and spinning only delays him. How many threads share the
// cores of a host nobody can know beforehand; but who comes back from yielding only after a while
// has had company.
#pragma once

#include <algorithm>
#include <chrono>

#include <sched.h>

namespace lockstep {

class Spinning {
 public:
  // Looks before a yield.
  Spinning(int most, int on_shared_core)
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

}  // namespace lockstep
