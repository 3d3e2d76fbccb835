// The time since the machine started: it goes on evenly, whatever the wall clock is set to. All
// processes of one boot read the same.
#pragma once

#include <chrono>
#include <fstream>
#include <string>

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

}  // namespace lockstep
