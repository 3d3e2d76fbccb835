// Ranks: the processes of a node, how far they are, and all that they leave behind.
//
// Each rank leads a process group. A rank's children may leave group and session and outlive their
// rank; they are found as descendants of the agent, which is their subreaper. Nothing here reads
// the memory of a process, for which the agent might have to wait.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/fd.h"
#include "base/result.h"
#include "base/spawn.h"
#include "base/units.h"
#include "platform/agent/activity_watch.h"
#include "platform/agent/progress_watch.h"
#include "platform/agent/report_socket.h"
#include "platform/core/model/attempt.h"

namespace lockstep {

class Ranks {
 public:
  // zero: the time at which the steady clock stood at zero; each moment it tells is counted from
  // there.
  Ranks(int first_rank, Duration hang_after, Time zero)
      : first_rank_(first_rank), zero_(zero), watch_(hang_after) {}

  // Starts the next rank; the end of a pipe with all its output, which does not block. Only from a
  // thread that lives as long as the agent.
  Result<Fd> start(Program program);

  // Another process for a rank that was killed; what is left of its group is killed too. The rank
  // counts as running on.
  Result<Fd> replace(int local_rank, Program program);

  // Collects all children that have ended, ranks and others. True when a rank was among them.
  bool reap(Duration moment);

  // Signals every process of the node, once each; looks at them before the first signal. A rank
  // that ends after it did not fail.
  void signal(int number);

  // Moments are those of ProgressWatch.
  void note_progress(int local_rank, std::int64_t step, Duration moment);
  // The rank's own word that it must end. The first counts; a further step takes it back, because
  // then the rank went on.
  void note_fault(int local_rank, const FaultReport& said);
  // What its output tells (network_words.h) counts only if it ends within a minute.
  void note_printed_fault(int local_rank, Fault fault, std::string_view line, Duration moment);
  // Tells by stalled_since who has been silent for too long; looks at all then. True at any change.
  bool find_stalled(Duration moment);
  std::optional<Duration> next_stall(Duration moment) const { return watch_.next(moment); }
  // The first that is; none: nullptr.
  const Rank* stalled() const;
  // Notes what the processes of each running rank do now. True if one stands still now and did not
  // before, or goes on.
  bool look();

  // All living processes of the node but the agent. One whose parent ends during the look may be
  // missing: who must be sure looks twice.
  std::vector<pid_t> processes() const;

  bool any_running() const;
  bool any_ended_badly() const;
  // Whether one did that its own program ended: it was not killed.
  bool any_failed() const;
  // The first that was killed, not by the agent; none: nullptr.
  const Rank* killed() const;
  const std::vector<Rank>& reports() const { return reports_; }

 private:
  int first_rank_;
  Time zero_;
  ProgressWatch watch_;
  ActivityWatch activities_;
  std::map<int, Duration> printed_faults_;  // by local rank, the moment of the last such line
  std::vector<Rank> reports_;               // by local rank
  bool signalled_ = false;                  // by us: a look tells nothing any more
};

}  // namespace lockstep
