// The end of attempts: what starts it, which cause is kept, when the attempt is over, and what
// happens to the run.
#pragma once

#include <optional>
#include <string>

#include "platform/core/step/handlers/draft.h"

namespace lockstep::step {

// Margins that no setting changes; docs/design/settings.md lists them with the settings.
inline constexpr Duration kStopMargin = std::chrono::seconds(5);       // after the grace period
inline constexpr Duration kReconnectLimit = std::chrono::seconds(15);  // for all agents
// From the end of its lease and of the grace period, until a node's processes have certainly ended.
inline constexpr Duration kLeaseMargin = std::chrono::minutes(1);
inline constexpr Duration kStuckLimit = std::chrono::minutes(1);   // while draining
inline constexpr Duration kEndSkewMax = std::chrono::seconds(20);  // after the first end of a rank
// From a lost connection to the attempt's end: time for the rank at fault to report its own end. An
// agent ends its other ranks itself after 5 s without a report.
inline constexpr Duration kFaultReportLimit = std::chrono::seconds(3);

// Begins to end the attempt, for this reason. Does nothing if it drains already.
void begin_draining(Draft& draft, const model::AttemptId& attempt, model::Cause cause,
                    std::string reason);

// Begins draining if a rank of the attempt has failed or hangs. If the attempt drains because of
// its ranks, sets the cause to the current diagnosis. A peer that fails because another rank was
// killed or hangs does not hide that, in whatever order they are reported (diagnosis.h). Nor does a
// peer that fails because an agent ended the others at their time limit, or because it waited too
// long for the rest of the gang.
void update_cause(Draft& draft, const model::AttemptId& attempt);

// True if the node's agent ended its ranks because the agent received a signal.
bool stopped_by_signal(const model::Node& node);
// The reason in that case: "host b shuts down, or takes its devices back: ...".
std::string node_stop_reason(const model::Node& node);

// True if the node's agent ended its ranks at their time limit. The agent counts from their start
// by a clock that is never set. The daemon cannot know that time: the report of the start can be
// late, and the attempt's age includes the start-up time and changes of the daemon's clock.
bool stopped_by_timeout(const model::Node& node);
// The reason in that case.
std::string timeout_reason(const model::Run& run);
struct AttemptCause {
  model::Cause cause = model::Cause::none;
  std::string reason;
};
// Agents have ended its ranks at their time limit. A loss if the run was extended, and they had not
// heard of that.
AttemptCause cause_of_agent_timeout(const model::Run& run, const model::Attempt& attempt,
                                    Time until);

// True if all ranks of the gang had run until `until`, as far as is known, when an agent found its
// time limit reached. It is known if its node is the only one, if the daemon counted the same time,
// if a rank completed a step (which needs all ranks), or if all of them ended at that time.
bool all_ranks_ran_until(const model::Run& run, const model::Attempt& attempt,
                         const std::vector<const model::Node*>& nodes, Time until);
// By the agents' clocks: true if the node's ranks ended so long after an agent had ended its own
// ranks that they did not run together.
bool ranks_ended_late(const model::Node& node, const std::vector<const model::Node*>& nodes);
// The reason of an attempt whose ranks never ran together, because the ranks of this node did not
// start.
std::string not_started_reason(const Draft& draft, const model::Node& node);

// Marks the node as lost, for this reason. The reason replaces a failure of other ranks if the last
// heartbeat of the node was before draining began: then the node failed first. A loss that is not
// the host's fault does not count for the host, and explains no failure of other ranks.
enum class HostBlame { counted, not_counted };
void mark_node_lost(Draft& draft, const model::NodeId& node, model::Cause cause, std::string reason,
                    HostBlame blame = HostBlame::counted);

// Requests a forced kill of the node, unless one was requested a moment ago.
void kill_node(Draft& draft, const model::NodeId& node);

// No process of the node is left. If this was the attempt's last node, the attempt ends, and the
// run ends or is queued again.
void release_node(Draft& draft, const model::NodeId& node);

// Since its last call, until an agent that does not reach the daemon has ended its processes. None:
// the attempt has no lease.
std::optional<Duration> time_until_gone(const Draft& draft, const model::AttemptId& attempt);

// The attempt no longer waits for the end of the node (given_up.h). If all its other nodes have
// ended, the attempt ends.
void give_up_node(Draft& draft, const model::NodeId& node);

// Ends a run that has no live attempt.
void end_run(model::Run& run, model::RunState state, std::string reason, Time now);

// Describes the run's next attempt after one with this cause: "attempt 3 follows after 2s and goes
// on from the last checkpoint (retry 2 of 3)". It mentions a checkpoint only if one was reported. A
// resumed run has used no retry yet.
std::string describe_next_attempt(const Draft& draft, const model::Run& run, model::Cause cause,
                                  Duration pause);

}  // namespace lockstep::step
