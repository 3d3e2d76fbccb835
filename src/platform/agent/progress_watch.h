// ProgressWatch: which ranks make no progress. Only a rank that has reported once is watched, until
// it ends: what never reports may be anything. Moments come in as arguments and count from any
// fixed beginning, on a clock that does not jump.
#pragma once

#include <map>
#include <optional>

#include "base/units.h"

namespace lockstep {

class ProgressWatch {
 public:
  // Zero: never.
  explicit ProgressWatch(Duration hang_after) : hang_after_(hang_after) {}

  void note(int local_rank, Duration moment);
  void end(int local_rank) { last_.erase(local_rank); }

  // How long it has been silent, once that is hang_after or more.
  std::optional<Duration> silence(int local_rank, Duration moment) const;
  // Until one more rank has been silent for so long; nothing while none will be.
  std::optional<Duration> next(Duration moment) const;

 private:
  Duration hang_after_;
  std::map<int, Duration> last_;  // the moment of its last report
};

}  // namespace lockstep
