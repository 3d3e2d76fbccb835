// Verdict: which rank is to blame for an attempt's end, and of what, as far as its nodes have told.
// Reports come in any order, and peers that fail because of a rank are often told of first, so it
// is asked again at each report until the attempt has ended; the newest answer counts.
//
//   1. A rank that ended because a newer attempt or another run had taken over: superseded. Or
//      because another run writes to its checkpoint folder: refused.
//   2. The bad end that happened first, by the agents' clocks: user_exit, or rank_lost.
//   3. But a rank whose process is stopped, or blocked in the kernel, makes its peers give up. If
//      they did so by themselves (an exit code, or SIGABRT, as libraries end a process whose call
//      timed out), it is to blame, and hangs.
//   4. But a rank that gave up may have said why (Rank::fault), and which rank is at fault. That
//      leads, over ranks that gave up likewise, to
//        a rank that failed with no such word: its end counts (user_exit or rank_lost);
//        a rank that had exited with code 0 before: user_exit, and it is named;
//        a rank that lives: rank_lost for a lost connection, hung for a time-out.
//      Whoever gave up without a name yields to any rank that failed with no such word.
//   5. Where the others go on without a rank that was killed (OnFailure::shrink), it is to blame
//      only once one of them failed by itself, or none is left.
//   6. With no bad end, but a rank that reports no progress any more: of those that run, a stopped
//      one hangs, else one blocked in the kernel, else that with the lowest step, else the lowest
//      rank. What ends badly once the attempt drains because of that is an echo.
//
// Limits: a death and its echo on hosts whose clocks differ by more than the time between the two
// may be taken for each other. Under 6, a step counts only if the rank ever reported one.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "platform/core/model/attempt.h"
#include "platform/core/model/run.h"

namespace lockstep {

// Of a rank that was killed: by which signal, and how far it was.
struct Kill {
  int rank = 0;
  int signal = 0;
  std::int64_t step = -1;  // -1: before it reported any

  bool operator==(const Kill&) const = default;
};

struct Verdict {
  Cause cause = Cause::none;  // user_exit, rank_lost, hung, superseded or refused
  std::string reason;
  // By what no loss of others brings about: a signal, or a process that somebody has stopped.
  bool by_itself = false;
  // Since when a rank has lost a connection while the rank at fault still runs: that one may be
  // about to tell that it failed itself.
  std::optional<Time> unsettled_since{};
  std::optional<Kill> kill{};
};

// Nothing while no rank has failed. hang_after is told in the reason of a hang.
std::optional<Verdict> verdict_on(const Attempt& attempt, const std::vector<const Node*>& nodes,
                                  Duration hang_after, OnFailure on_failure = OnFailure::restart);

// By its agent's clock: when the first rank ended that its agent had signalled. What fails after
// that fails because of it.
std::optional<Time> first_end_by_agent(const std::vector<const Node*>& nodes);

// Whether the signal is one that programs raise by their own mistakes. SIGKILL and SIGTERM come
// from elsewhere.
bool is_crash(int signal);

// Whether the same rank crashed in the same way, by no fault that it reported.
bool has_crashed(const std::vector<const Node*>& nodes, const Kill& kill);

// Whether a verdict on ranks was the cause that gives way to a later one.
bool is_verdict(Cause cause);

}  // namespace lockstep
