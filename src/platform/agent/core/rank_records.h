// RankRecords: the ranks of a node as their agent reports them, from what it observed. Pure: times
// are arguments and count from any fixed start, on a clock that does not jump.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <vector>

#include "base/units.h"
#include "platform/agent/core/event.h"
#include "platform/agent/core/progress_watch.h"
#include "platform/core/model/attempt.h"

namespace lockstep::agent {

class RankRecords {
 public:
  // zero: the wall-clock time at which the clock of the moments was zero; reported times count from
  // it.
  RankRecords(int first_rank, Duration hang_after, Time zero)
      : first_rank_(first_rank), zero_(zero), progress_watch_(hang_after) {}

  // The next rank has started.
  void add(std::int64_t pid);
  void record_end(const RankEnd& end, Duration moment);
  // The rank runs again in another process; its step is kept.
  void record_restart(int local_rank, std::int64_t pid);
  // From here on the agent's signals end the ranks: they do not fail, and their activities mean
  // nothing.
  void record_signal() { signalled_ = true; }
  bool is_signalled() const { return signalled_; }

  void record_progress(const ProgressReported& report, Duration moment);
  // The first report counts; a further step withdraws it, because then the rank continued. False if
  // it does not count.
  bool record_fault(const FaultReported& report);
  // Counts only if the rank ends within a minute.
  void record_printed_fault(const FaultPrinted& printed, Duration moment);
  // Updates stalled_since of ranks without progress. True at any change.
  bool update_stalled(Duration moment);
  std::optional<Duration> next_stall(Duration moment) const {
    return progress_watch_.next_timeout(moment);
  }
  // True if an activity became, or no longer is, stopped or blocked.
  bool update_activities(const std::map<int, RankActivity>& activities);

  const std::vector<model::Rank>& all() const { return ranks_; }
  const model::Rank& at(int local_rank) const {
    return ranks_.at(static_cast<std::size_t>(local_rank));
  }
  bool any_running() const;
  bool any_ended_badly() const;
  // True if a rank failed and was not killed.
  bool any_failed() const;
  // The first rank without progress for too long, or nullptr.
  const model::Rank* first_stalled() const;

 private:
  model::Rank* running(int local_rank);

  int first_rank_;
  Time zero_;
  ProgressWatch progress_watch_;
  std::map<int, Duration> printed_faults_;  // by local rank, the time of the last such line
  std::vector<model::Rank> ranks_;          // by local rank
  bool signalled_ = false;
};

}  // namespace lockstep::agent
