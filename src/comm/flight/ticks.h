// Ticks: what the flight recorder reads instead of a clock. Where the kernel keeps time by the
// processor's counter, which it does only when that is even and the same on all cores, the counter
// itself: 10 ns instead of 23. Elsewhere the steady clock's nanoseconds.
#pragma once

#include <chrono>
#include <concepts>
#include <cstdint>

#if defined(__x86_64__)
#include <x86intrin.h>
#endif

namespace lockstep {

class TickClock {
 public:
  // The process's; measured (2 ms) at the first call.
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

// All clocks at about one moment: `took` ticks have passed from the first to the last, whose middle
// is `ticks`.
struct ClockReading {
  std::uint64_t ticks = 0, took = 0;
  std::chrono::steady_clock::time_point steady;
  std::chrono::system_clock::time_point wall;
};

// The best of so many tries, or the first that is good enough: who is interrupted between two
// clocks, on a busy machine for milliseconds, would put all times that follow from them so far
// wrong.
template <std::invocable Read>
ClockReading least_interrupted(int tries, std::uint64_t good_enough, Read read) {
  ClockReading best = read();
  for (int i = 1; i < tries && best.took > good_enough; ++i)
    if (const ClockReading next = read(); next.took < best.took) best = next;
  return best;
}

}  // namespace lockstep
