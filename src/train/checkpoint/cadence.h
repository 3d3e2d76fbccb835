// Cadence: how often to save. A save costs its stall, a failure costs what was trained since the
// last one; with a mean time M between failures and a stall c, both together are least at
//   interval = sqrt(2 c M)
// (Young, "A first order approximation to the optimum checkpoint interval", CACM 1974; Daly 2006
// has the higher-order terms, which vanish where c is much smaller than M, as here). It is the
// stall that counts, not the time that writing takes in the background.
//
// The clock comes in as an argument. One rank decides, since stalls and clocks differ.
#pragma once

#include <chrono>
#include <optional>

#include "base/units.h"

namespace lockstep {

// 16,384 GPUs for 54 days had 419 unexpected interruptions (The Llama 3 Herd of Models, 2024,
// section 3.3.4): one in about 51,000 hours for each.
constexpr Duration kRankFailureTime = std::chrono::hours(51'000);

// Of a training of so many ranks, any of whose failures ends an attempt.
constexpr Duration failure_time(int ranks) { return kRankFailureTime / ranks; }

class Cadence {
 public:
  using Moment = std::chrono::steady_clock::time_point;

  // Bounds of what the formula says: a training is also stopped, and looked at, by people; and a
  // stall of nothing must not make it save all the time.
  static constexpr Duration kIntervalMin = std::chrono::seconds(10);
  static constexpr Duration kIntervalMax = std::chrono::minutes(30);

  Cadence(Duration failure_time, Moment now) : failure_time_(failure_time), last_(now) {}

  bool due(Moment now) const { return now - last_ >= interval(); }
  // A save began at `now` and held the training up for so long.
  void saved(Duration stall, Moment now);
  Duration interval() const;
  std::optional<Duration> stall() const { return stall_; }

 private:
  Duration failure_time_;
  Moment last_;
  std::optional<Duration> stall_;  // a running mean: a single long one must not count for ever
};

}  // namespace lockstep
