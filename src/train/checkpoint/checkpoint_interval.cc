#include "train/checkpoint/checkpoint_interval.h"

#include <algorithm>
#include <cmath>

namespace lockstep::train {

void CheckpointInterval::record_save(Duration stall, Moment now) {
  stall_ = stall_ ? (*stall_ + stall) / 2 : stall;
  last_ = now;
}

Duration CheckpointInterval::interval() const {
  if (!stall_) return kIntervalMin;  // measures the stall soon
  const auto best =
      from_seconds(std::sqrt(2 * in_seconds(*stall_) * in_seconds(mean_time_between_failures_)));
  return std::clamp(best, kIntervalMin, kIntervalMax);
}

}  // namespace lockstep::train
