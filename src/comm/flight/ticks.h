// Ticks: the clock of the flight recorder. If the kernel uses the processor's counter as its clock,
// which it does only when the counter is constant and equal on all cores, ticks are that counter:
// 10 ns instead of 23. Otherwise they are the steady clock's nanoseconds.
#pragma once

#include <chrono>
#include <concepts>
#include <cstdint>

#if defined(__x86_64__)
#include <x86intrin.h>
#endif

namespace lockstep::comm {

class TickClock {
 public:
  // The clock of the process; measured from when the program was loaded to the first call.
  static const TickClock& get();

  std::uint64_t now() const noexcept {
#if defined(__x86_64__)
    if (counts_) return __rdtsc();
#endif
    return static_cast<std::uint64_t>(std::chrono::steady_clock::now().time_since_epoch().count());
  }
  double nanoseconds_per_tick() const { return nanoseconds_per_tick_; }

 private:
  TickClock();

  bool counts_ = false;
  double nanoseconds_per_tick_ = 1;
};

// All clocks at about the same time. `took` ticks have passed from the first to the last; `ticks`
// is the middle.
struct ClockReading {
  std::uint64_t ticks = 0, took = 0;
  std::chrono::steady_clock::time_point steady;
  std::chrono::system_clock::time_point wall;
};

// The best of this number of tries, or the first that is good enough. A thread may be interrupted
// between two clocks, on a busy machine for milliseconds. All times derived from such a reading
// would be wrong by that.
template <std::invocable Read>
ClockReading best_clock_reading(int tries, std::uint64_t good_enough, Read read) {
  ClockReading best = read();
  for (int i = 1; i < tries && best.took > good_enough; ++i)
    if (const ClockReading next = read(); next.took < best.took) best = next;
  return best;
}

}  // namespace lockstep::comm
