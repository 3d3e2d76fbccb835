// ProgressWatch: which ranks make no progress. A rank is watched from its first report until it
// ends: a rank that never reports may run any program. Times are arguments and count from any fixed
// start, on a clock that does not jump.
#pragma once

#include <map>
#include <optional>

#include "base/units.h"

namespace lockstep::agent {

class ProgressWatch {
 public:
  // Zero: never reports a rank.
  explicit ProgressWatch(Duration hang_after) : hang_after_(hang_after) {}

  void record_progress(int local_rank, Duration moment);
  void remove_rank(int local_rank) { last_progress_.erase(local_rank); }

  // How long it has made no progress, if that is hang_after or more.
  std::optional<Duration> time_without_progress(int local_rank, Duration moment) const;
  // Time until the next rank has made no progress for hang_after; empty if no rank is watched.
  std::optional<Duration> next_timeout(Duration moment) const;

 private:
  Duration hang_after_;
  std::map<int, Duration> last_progress_;  // the time of its last report
};

}  // namespace lockstep::agent
