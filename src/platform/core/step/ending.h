// How attempts end: what begins it, which cause is kept, when it is over, and what becomes of the
// run.
#pragma once

#include <string>

#include "platform/core/step/draft.h"

namespace lockstep {

// Bounds of what the platform waits for.
inline constexpr Duration kFirstCallLimit = std::chrono::seconds(60);  // agent launched to heard
inline constexpr Duration kReadyLimit = std::chrono::minutes(5);  // reserved to all ranks started
inline constexpr Duration kSilenceLimit = std::chrono::seconds(30);  // between an agent's calls
inline constexpr Duration kStopMargin = std::chrono::seconds(5);     // after the grace period
inline constexpr Duration kHearAgain = std::chrono::seconds(15);     // all agents, after a break
inline constexpr Duration kShipLimit = std::chrono::minutes(5);      // to send the last logs
inline constexpr Duration kStuckLimit = std::chrono::minutes(1);     // draining; then it is said
inline constexpr Duration kEndTogether = std::chrono::seconds(20);   // of ranks of which one did
// From a lost connection to the attempt's end, for the rank at fault to tell of its own end. An
// agent ends its other ranks itself after 5 s without a word.
inline constexpr Duration kSettleLimit = std::chrono::seconds(3);
inline constexpr Duration kKillInterval = std::chrono::seconds(5);  // between kills of a node
inline constexpr Duration kBackOffLimit = std::chrono::minutes(1);  // of a pause before a retry

// The attempt is to end, for this reason. Of one that already drains nothing changes.
void begin_draining(Draft& draft, const AttemptId& attempt, Cause cause, std::string reason);

// Begins draining if a rank of the attempt has ended badly or hangs; of one that drains because of
// its ranks, makes what they say now its cause: a peer that fails because another died or hangs
// does not hide that, whichever is reported first (verdict.h); nor does one that fails because an
// agent ended its peers when their time was up, or because it had waited long enough for the rest
// of the gang.
void judge_ranks(Draft& draft, const AttemptId& attempt);

// Whether the node's agent ended its ranks because a signal asked it to end.
bool was_asked_to_end(const Node& node);
// The reason then: "host b shuts down, or takes its devices back: ...".
std::string stopped_node(const Node& node);

// Whether the node's agent ended its ranks because their time was up. It counts from their start by
// a clock that nobody sets. We cannot know that ourselves: of their start we may have heard late,
// and the attempt's age has in it how long they took to start, and what our clock was set forward.
bool found_time_up(const Node& node);
// The reason then.
std::string time_out_of(const Run& run);

// Whether, when an agent found at `until` that the time was up, all ranks of the gang had run until
// then, as far as is known: its node is the only one; or the daemon had counted the same; or one of
// them took steps, for which it needs all; or all of them ended then.
bool gang_ran(const Run& run, const Attempt& attempt, const std::vector<const Node*>& nodes,
              Time until);
// By their agents' clocks: whether the node's ranks ended so late after an agent had ended its own
// that they did not run with those.
bool ended_apart(const Node& node, const std::vector<const Node*>& nodes);
// The reason of an attempt whose ranks never ran together, because of those of this node.
std::string did_not_start(const Node& node);

// Nothing is known of the node any more, for the reason given. Hides what other ranks did if
// the node was last heard before the moment at which draining began: then it was the first to go.
// Its host is under suspicion from then on, unless it is known to be blameless.
enum class Suspicion { of_host, none };
void lose_node(Draft& draft, const NodeId& node, Cause cause, std::string reason,
               Suspicion suspicion = Suspicion::of_host);

// Has the node ended by force, unless that was asked a moment ago.
void kill_node(Draft& draft, const NodeId& node);

// No process of the node is left. Ends the attempt when this was its last node: the run ends, or is
// queued again.
void release_node(Draft& draft, const NodeId& node);

// Ends a run that has no live attempt.
void end_run(Run& run, RunState state, std::string reason, Time now);

// The run's next attempt, after one with this cause: "attempt 3 follows after 2s and goes on from
// the last checkpoint (retry 2 of 3)"; of a checkpoint nothing is said unless one was reported. Of
// one that was resumed no retry is used yet.
std::string what_follows(const Draft& draft, const Run& run, Cause cause, Duration pause);

}  // namespace lockstep
