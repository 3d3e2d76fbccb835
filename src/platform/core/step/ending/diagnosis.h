// AttemptDiagnosis: which rank caused an attempt's end, and how, as far as its nodes have reported.
// Reports come in any order, and peers that fail because of a rank are often reported first. So
// each report updates the diagnosis until the attempt has ended, and the newest one counts.
//
// The rules, in order:
//   1. A rank ended because a newer attempt or another run had taken over: superseded. Or
//      because another run writes to its checkpoint folder: refused.
//   2. Otherwise the first failed rank, by the agents' clocks: user_exit, oom or rank_lost.
//   3. But a rank whose process is stopped, or blocked in the kernel, makes its peers give up.
//      If they ended themselves (an exit code, or SIGABRT, as libraries end a process whose call
//      timed out), the blocked rank is the cause: it hangs.
//   4. But a rank that gave up may have reported why (Rank::fault), and which rank is at fault.
//      The diagnosis follows these references, over ranks that gave up in the same way, to
//        a rank that failed without such a report: its end counts (user_exit or rank_lost);
//        a rank that had exited with code 0 before: user_exit, and the reason names it;
//        a rank that lives: rank_lost for a lost connection, hung for a time-out.
//      If the rank that gave up names no rank, any rank that failed without a report comes first.
//   5. If the others continue without a killed rank (OnFailure::shrink), that rank is the cause
//      only once another rank failed independently, or none is left.
//   6. If no rank failed, but one reports no more progress, the cause is one of the running
//      ranks: a stopped one, else one blocked in the kernel, else the one with the lowest step,
//      else the lowest rank. Failures after the attempt drains because of that are consequences.
//
// Limits: if the clocks of two hosts differ by more than the time between a failure and its
// consequence, the two may be confused. In rule 6 a step counts only if the rank ever reported one.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "platform/core/model/attempt.h"
#include "platform/core/model/run.h"

namespace lockstep::step {

// A killed rank: its signal, and its last step.
struct RankKill {
  int rank = 0;
  int signal = 0;
  std::int64_t step = -1;  // -1: no step was reported

  bool operator==(const RankKill&) const = default;
};

struct AttemptDiagnosis {
  model::Cause cause =
      model::Cause::none;  // user_exit, oom, rank_lost, hung, superseded or refused
  std::string reason;
  // The cause does not depend on the loss of other ranks: a signal, or a stopped process.
  bool is_independent = false;
  // Since when a rank has lost a connection while the rank at fault still runs. That rank may be
  // about to report its own failure.
  std::optional<Time> provisional_since{};
  std::optional<RankKill> kill{};
  std::optional<int> rank{};  // whose output states the failure
};

// Empty while no rank has failed. The reason of a hang mentions hang_after.
std::optional<AttemptDiagnosis> diagnose_attempt(
    const model::Attempt& attempt, const std::vector<const model::Node*>& nodes,
    Duration hang_after, model::OnFailure on_failure = model::OnFailure::restart);

// By its agent's clock: when the first rank ended that its agent had signalled. Later failures are
// consequences.
std::optional<Time> first_end_by_agent(const std::vector<const model::Node*>& nodes);

// True for signals that a program raises by its own errors. SIGKILL and SIGTERM come from outside.
bool is_crash(int signal);

// True if the same rank crashed in the same way, and reported no fault as the reason.
bool crashed_alike(const std::vector<const model::Node*>& nodes, const RankKill& kill);

// True if the cause is a diagnosis of ranks, which a later diagnosis may replace. The kernel's end
// of a rank for its memory is a fact, and has no earlier cause.
bool is_from_diagnosis(model::Cause cause);

}  // namespace lockstep::step
