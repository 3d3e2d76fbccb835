// CheckpointInterval: how often to save. A save costs its stall, a failure costs the training since
// the last save. With a mean time M between failures and a stall c, the total cost is least at
// interval = sqrt(2 c M)
// (Young, "A first order approximation to the optimum checkpoint interval", CACM 1974; Daly 2006
// has the higher-order terms, which vanish if c is much smaller than M, as here). The stall counts,
// not the time that writing takes in the background.
//
// The clock is an argument. One rank decides, because stalls and clocks differ.
#pragma once

#include <chrono>
#include <optional>

#include "base/units.h"

namespace lockstep::train {

// 16,384 GPUs for 54 days had 419 unexpected interruptions (The Llama 3 Herd of Models, 2024,
// section 3.3.4): one in about 51,000 hours for each.
constexpr Duration kRankMeanTimeBetweenFailures = std::chrono::hours(51'000);

// For a training with this many ranks, any of whose failures ends an attempt.
constexpr Duration mean_time_between_failures(int ranks) {
  return kRankMeanTimeBetweenFailures / ranks;
}

class CheckpointInterval {
 public:
  using Moment = std::chrono::steady_clock::time_point;

  // Bounds of the formula's result: users also stop and inspect a training; and a stall of zero
  // must not make it save all the time.
  static constexpr Duration kIntervalMin = std::chrono::seconds(10);
  static constexpr Duration kIntervalMax = std::chrono::minutes(30);

  CheckpointInterval(Duration failure_time, Moment now)
      : mean_time_between_failures_(failure_time), last_(now) {}

  bool due(Moment now) const { return now - last_ >= interval(); }
  // A save began at `now` and delayed the training by `stall`.
  void record_save(Duration stall, Moment now);
  Duration interval() const;
  std::optional<Duration> stall() const { return stall_; }

 private:
  Duration mean_time_between_failures_;
  Moment last_;
  std::optional<Duration> stall_;  // a running mean: the effect of a single long one must fade
};

}  // namespace lockstep::train
