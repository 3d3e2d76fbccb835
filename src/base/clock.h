// The clock as an argument: the real one in programs, a manual one in tests and the simulator.
// platform/core must not use it: it gets the time inside events.
#pragma once

#include <chrono>

#include "base/units.h"

namespace lockstep {

class Clock {
 public:
  virtual ~Clock() = default;
  virtual Time now() const = 0;
};

class SystemClock : public Clock {
 public:
  Time now() const override {
    return std::chrono::time_point_cast<Duration>(std::chrono::system_clock::now());
  }
};

// A time on the steady clock by which a wait must end.
class Deadline {
 public:
  static Deadline after(Duration duration) {
    return Deadline(std::chrono::steady_clock::now() + duration);
  }
  bool passed() const { return std::chrono::steady_clock::now() >= at_; }
  // Zero once passed; never negative.
  Duration remaining() const {
    auto left = std::chrono::duration_cast<Duration>(at_ - std::chrono::steady_clock::now());
    return left.count() > 0 ? left : Duration(0);
  }
  std::chrono::steady_clock::time_point at() const { return at_; }

 private:
  explicit Deadline(std::chrono::steady_clock::time_point at) : at_(at) {}
  std::chrono::steady_clock::time_point at_;
};

}  // namespace lockstep
