#include "comm/flight/ticks.h"

#include "base/os/files.h"

namespace lockstep::comm {
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

ClockReading read_both() {
  return best_clock_reading(kTries, /*good_enough=*/0, [] {
    const std::uint64_t before = __rdtsc();
    const auto steady = steady_clock::now();
    const std::uint64_t took = __rdtsc() - before;
    return ClockReading{before + took / 2, took, steady, {}};
  });
}

// When the program is loaded, so that nothing waits for the end of the measurement.
const ClockReading kBegin = read_both();

double measure_tick() {
  while (steady_clock::now() - kBegin.steady < kMeasured) {
  }
  const auto end = read_both();
  return std::chrono::duration<double, std::nano>(end.steady - kBegin.steady).count() /
         static_cast<double>(end.ticks - kBegin.ticks);
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

}  // namespace lockstep::comm
