// The time since the machine started: it goes on evenly, whatever the wall clock is set to. All
// processes of one boot read the same.
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
  virtual Duration passed() const = 0;
  // Another one for each boot of the machine; empty: it cannot be told.
  virtual std::string boot() const = 0;
};

// It stands while the machine sleeps.
class MachineClock : public SteadyClock {
 public:
  Duration passed() const override {
    return std::chrono::duration_cast<Duration>(
        std::chrono::steady_clock::now().time_since_epoch());
  }
  std::string boot() const override {
    std::string id;
    std::ifstream("/proc/sys/kernel/random/boot_id") >> id;
    return id;
  }
};

// What the wall clock showed when the steady one stood at zero, as if it had always been set as it
// is now. Both are read at one moment, unless the process is stopped between the two.
inline Time zero_of(const Clock& wall, const SteadyClock& steady) {
  constexpr Duration kMoment = std::chrono::milliseconds(10);
  while (true) {
    const Duration before = steady.passed();
    const Time now = wall.now();
    if (steady.passed() - before < kMoment) return now - before;
  }
}

}  // namespace lockstep
