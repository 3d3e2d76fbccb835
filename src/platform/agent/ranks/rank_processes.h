// RankProcesses: the processes of a node's ranks, their progress, and their leftovers.
//
// Each rank leads a process group. A rank's children may leave the group and session and outlive
// their rank. They are found as descendants of the agent, which is their subreaper. Nothing here
// reads the memory of a process, because the agent might have to wait for that.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/os/fd.h"
#include "base/os/spawn.h"
#include "base/result.h"
#include "base/units.h"
#include "platform/agent/ranks/report_socket.h"
#include "platform/agent/watch/activity_watch.h"
#include "platform/agent/watch/progress_watch.h"
#include "platform/core/model/attempt.h"

namespace lockstep::agent {

class RankProcesses {
 public:
  // zero: the wall-clock time at which the steady clock was zero; reported times count from it.
  RankProcesses(int first_rank, Duration hang_after, Time zero)
      : first_rank_(first_rank), zero_(zero), progress_watch_(hang_after) {}

  // Starts the next rank; returns a non-blocking pipe with all its output. Call it only from a
  // thread that lives as long as the agent.
  Result<Fd> start(ProcessSpec program);

  // Starts another process for a rank that was killed, and kills the rest of its process group. The
  // rank still counts as running.
  Result<Fd> restart(int local_rank, ProcessSpec program);

  // Collects all ended children, ranks and others. True if a rank was among them.
  bool reap(Duration moment);

  // Signals every process of the node once; updates the ranks' state before. A rank that ends after
  // it did not fail.
  void signal(int number);

  // Times are those of ProgressWatch.
  void record_progress(int local_rank, std::int64_t step, Duration moment);
  // Records the rank's own report that it must end. The first report counts; a further step
  // withdraws it, because then the rank continued.
  void record_fault(int local_rank, const FaultReport& report);
  // A fault in its output (network_errors.h) counts only if the rank ends within a minute.
  void record_printed_fault(int local_rank, report::Fault fault, std::string_view line,
                            Duration moment);
  // Updates stalled_since of ranks without progress, and their activities. True at any change.
  bool update_stalled(Duration moment);
  std::optional<Duration> next_stall(Duration moment) const {
    return progress_watch_.next_timeout(moment);
  }
  // The first stalled rank, or nullptr.
  const model::Rank* first_stalled() const;
  // Updates the activity of each running rank. True if one became, or no longer is, stopped or
  // blocked.
  bool update_activities();

  // All living processes of the node except the agent. A process whose parent ends during the scan
  // may be missing: scan twice to be sure.
  std::vector<pid_t> processes() const;

  bool any_running() const;
  bool any_ended_badly() const;
  // True if a rank failed and was not killed.
  bool any_failed() const;
  // The first rank that was killed, but not by the agent; or nullptr.
  const model::Rank* first_killed() const;
  const std::vector<model::Rank>& ranks() const { return ranks_; }

 private:
  int first_rank_;
  Time zero_;
  ProgressWatch progress_watch_;
  ActivityWatch activity_watch_;
  std::map<int, Duration> printed_faults_;  // by local rank, the time of the last such line
  std::vector<model::Rank> ranks_;          // by local rank
  bool signalled_ = false;                  // by the agent: activities mean nothing any more
};

}  // namespace lockstep::agent
