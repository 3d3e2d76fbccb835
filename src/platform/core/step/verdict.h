// Verdict: which rank is to blame for an attempt's end, and of what, as far as its nodes have told.
// Reports come in any order, and peers that fail because of a rank are often told of first, so it
// is asked again at each report until the attempt has ended; the newest answer counts.
//
//   1. The bad end that happened first, by the agents' clocks: user_exit, or rank_lost.
//   2. But a rank whose process is stopped makes its peers give up. If they did so by themselves
//      (an exit code, or SIGABRT, as libraries end a process whose call timed out), it is to blame,
//      and hangs.
//   3. Where the others go on without a rank that was killed (OnFailure::shrink), it is to blame
//   only
//      once one of them failed by itself, or none is left.
//   4. With no bad end, but a rank that reports no progress any more: of those that run, a stopped
//      one hangs, else one blocked in the kernel, else that with the lowest step, else the lowest
//      rank. What ends badly once the attempt drains because of that is an echo.
//
// Limits: a death and its echo on hosts whose clocks differ by more than the time between the two
// may be taken for each other. Under 4, a step counts only if the rank ever reported one.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "platform/core/model/attempt.h"
#include "platform/core/model/run.h"

namespace lockstep {

struct Verdict {
  Cause cause = Cause::none;  // user_exit, rank_lost or hung
  std::string reason;
  // By what no loss of others brings about: a signal, or a process that somebody has stopped.
  bool by_itself = false;
};

// Nothing while no rank has failed. hang_after is told in the reason of a hang.
std::optional<Verdict> verdict_on(const Attempt& attempt, const std::vector<const Node*>& nodes,
                                  Duration hang_after, OnFailure on_failure = OnFailure::restart);

// By its agent's clock: when the first rank ended that its agent had signalled. What fails after
// that fails because of it.
std::optional<Time> first_end_by_agent(const std::vector<const Node*>& nodes);

// Whether a verdict on ranks was the cause; only such a one gives way to another.
bool is_verdict(Cause cause);

}  // namespace lockstep
