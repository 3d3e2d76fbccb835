// The time since the machine started: it is independent of changes of the wall clock. All processes
// of one boot read the same.
#pragma once

#include <chrono>
#include <fstream>
#include <string>

#include "base/clock.h"
#include "base/units.h"

namespace lockstep {

class SteadyClock {
 public:
  virtual ~SteadyClock() = default;
  virtual Duration since_boot() const = 0;
  // Differs for each boot of the machine; empty if unknown.
  virtual std::string boot_id() const = 0;
};

// Stops while the machine sleeps.
class MonotonicClock : public SteadyClock {
 public:
  Duration since_boot() const override {
    return std::chrono::duration_cast<Duration>(
        std::chrono::steady_clock::now().time_since_epoch());
  }
  std::string boot_id() const override {
    std::string id;
    std::ifstream("/proc/sys/kernel/random/boot_id") >> id;
    return id;
  }
};

// The wall time at which the steady clock was zero, as if the wall clock had always been set as
// now. Both are read at one moment, unless the process is stopped between the two.
inline Time wall_time_at_boot(const Clock& wall, const SteadyClock& steady) {
  constexpr Duration kMoment = std::chrono::milliseconds(10);
  while (true) {
    const Duration before = steady.since_boot();
    const Time now = wall.now();
    if (steady.since_boot() - before < kMoment) return now - before;
  }
}

}  // namespace lockstep
