// IdleWatch: since when the processes of a node do not compute, by the CPU time that they have used
// in all. It compares windows of ten seconds: less than a fiftieth of one core is idle. Times are
// arguments and count from any fixed start, on a clock that does not jump.
#pragma once

#include <optional>

#include "base/units.h"

namespace lockstep::agent {

class IdleWatch {
 public:
  // The processes have used that much CPU time up to now. Less than before: one has ended, so the
  // window counts as used. True if idle_since() has changed.
  bool observe(Duration cpu_time, Duration moment);
  // A rank has reported a step. True if idle_since() has changed.
  bool record_use();
  // The beginning of the first of the idle windows up to now; none: the last window was used.
  std::optional<Duration> idle_since() const { return idle_since_; }

 private:
  struct Window {
    Duration begin{};
    Duration cpu_time{};
  };
  std::optional<Window> window_;
  std::optional<Duration> idle_since_;
};

}  // namespace lockstep::agent
