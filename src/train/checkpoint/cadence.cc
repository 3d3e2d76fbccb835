#include "train/checkpoint/cadence.h"

#include <algorithm>
#include <cmath>

namespace lockstep {

void Cadence::saved(Duration stall, Moment now) {
  stall_ = stall_ ? (*stall_ + stall) / 2 : stall;
  last_ = now;
}

Duration Cadence::interval() const {
  if (!stall_) return kIntervalMin;  // what it costs is worth knowing soon
  const auto best = from_seconds(std::sqrt(2 * in_seconds(*stall_) * in_seconds(failure_time_)));
  return std::clamp(best, kIntervalMin, kIntervalMax);
}

}  // namespace lockstep
