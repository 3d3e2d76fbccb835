#include "comm/flight/ticks.h"

#include <limits>

#include "base/files.h"

namespace lockstep {
namespace {

using std::chrono::steady_clock;

constexpr auto kMeasured = std::chrono::milliseconds(2);
constexpr int kTries = 8;

bool kernel_counts() {
  const auto source =
      read_file("/sys/devices/system/clocksource/clocksource0/current_clocksource", 4096);
  return source && source->starts_with("tsc");
}

#if defined(__x86_64__)

struct Pair {
  std::uint64_t ticks = 0;
  steady_clock::time_point time;
};

// Of several tries the one that was interrupted the least.
Pair read_both() {
  Pair best;
  auto least = std::numeric_limits<std::uint64_t>::max();
  for (int i = 0; i < kTries; ++i) {
    const std::uint64_t before = __rdtsc();
    const auto time = steady_clock::now();
    const std::uint64_t took = __rdtsc() - before;
    if (took < least) best = {before + took / 2, time};
    if (took < least) least = took;
  }
  return best;
}

double measure_tick() {
  const Pair begin = read_both();
  while (steady_clock::now() - begin.time < kMeasured) {
  }
  const Pair end = read_both();
  return std::chrono::duration<double, std::nano>(end.time - begin.time).count() /
         static_cast<double>(end.ticks - begin.ticks);
}

#endif

}  // namespace

const TickClock& TickClock::get() {
  static const TickClock clock;
  return clock;
}

TickClock::TickClock() {
#if defined(__x86_64__)
  counts_ = kernel_counts();
  if (counts_) nanoseconds_per_tick_ = measure_tick();
#endif
}

}  // namespace lockstep
