// Events of the engine, and ticks: every wait of the platform ends here.
#include <algorithm>

#include "base/format.h"
#include "platform/core/model/command.h"
#include "platform/core/step/ending/attempt_end.h"
#include "platform/core/step/ending/host_losses.h"
#include "platform/core/step/ending/orphans.h"
#include "platform/core/step/ending/reason_text.h"
#include "platform/core/step/handlers/event_handlers.h"
#include "platform/core/step/starting/preconditions.h"

namespace lockstep::step {
namespace {

// The node if it still counts: it belongs to a live attempt and is not released.
const model::Node* find_live_node(const Draft& draft, const model::NodeId& id) {
  const model::Attempt* attempt = draft.live_attempt(id.attempt.run);
  const model::Node* node = draft.nodes.find(id);
  if (!node || !attempt || attempt->id != id.attempt) return nullptr;
  return node->state == model::NodeState::released ? nullptr : node;
}

bool drains(const Draft& draft, const model::AttemptId& id) {
  return draft.attempts.find(id)->state == model::AttemptState::draining;
}

void mark_lost_and_kill(Draft& draft, const model::NodeId& id, model::Cause cause,
                        std::string reason, HostBlame blame = HostBlame::counted) {
  mark_node_lost(draft, id, cause, std::move(reason), blame);
  kill_node(draft, id);
}

// The agent ended. The node is lost, unless its ranks are final, or the daemon killed it while its
// agent was still reporting, too slow to stop.
void mark_agent_lost(Draft& draft, const model::Node& node) {
  const model::Attempt& attempt = *draft.attempts.find(node.id.attempt);
  if (model::ranks_are_final(node) ||
      (node.kill_requested_at && attempt.draining && node.last_heartbeat > *attempt.draining))
    return;
  mark_node_lost(draft, node.id, model::Cause::node_lost,
                 format("the agent of {} ended and gave no reason", describe_location(node)));
}

// While the daemon was away it received no heartbeats.
Duration time_since_heartbeat(const Draft& draft, const model::Node& node, Time listening_since) {
  return draft.now() - std::max(node.last_heartbeat, listening_since);
}

void check_heartbeat(Draft& draft, const model::Node& node, Time listening_since) {
  if (model::ranks_are_final(node)) return;
  const Duration silent = time_since_heartbeat(draft, node, listening_since);
  if (node.state == model::NodeState::allocated) {
    if (silent >= kFirstCallLimit)
      mark_lost_and_kill(draft, node.id, model::Cause::launch_failed,
                         format("the agent of {} did not call within {}; its agent.log may say why",
                                describe_location(node), short_text(kFirstCallLimit)));
  } else if (silent >= kSilenceLimit) {
    mark_lost_and_kill(draft, node.id, model::Cause::node_lost,
                       format("the agent of {} was silent for {}", describe_location(node),
                              short_text(kSilenceLimit)));
  }
}

// A daemon that was away sent no `start`: that time does not count.
void check_ready(Draft& draft, const model::Attempt& attempt, Time listening_since) {
  const Duration waited = draft.now() - std::max(attempt.created, listening_since);
  if (attempt.state >= model::AttemptState::running || waited < kReadyLimit) return;
  for (const model::Node* node : draft.nodes_of(attempt.id))
    if (node->state != model::NodeState::running)
      return begin_draining(draft, attempt.id, model::Cause::launch_failed,
                            not_started_reason(*node));
}

bool any_heartbeat_since(const Draft& draft, const model::Attempt& attempt, Time since) {
  return std::ranges::any_of(draft.nodes_of(attempt.id), [&](const model::Node* node) {
    return node->last_heartbeat >= since;
  });
}

// Agents enforce the time limit themselves. After a break their reports come first: the ranks may
// have ended in time while the daemon was away, or with the host, if no agent reports again.
void check_timeout(Draft& draft, const model::Attempt& attempt, Time listening_since) {
  if (attempt.state != model::AttemptState::running) return;
  if (draft.now() - listening_since < kReconnectLimit) return;
  if (!any_heartbeat_since(draft, attempt, listening_since)) return;
  const model::Run& run = *draft.runs.find(attempt.id.run);
  if (run.time_used + (draft.now() - *attempt.started) >= run.spec.timeout)
    begin_draining(draft, attempt.id, model::Cause::timeout, timeout_reason(run));
}

// A node with a `stop` command has the grace period. Once its ranks have ended it has longer, while
// it sends heartbeats, to send its last logs.
bool is_overdue(const Draft& draft, const model::Attempt& attempt, const model::Node& node,
                Time listening_since) {
  if (node.state == model::NodeState::lost) return true;
  const Duration time_since_stop = draft.now() - std::max(*attempt.draining, listening_since);
  if (time_since_stop < model::kGracePeriod + kStopMargin) return false;
  if (!model::ranks_are_final(node) || time_since_stop >= kLogDeliveryLimit) return true;
  return time_since_heartbeat(draft, node, listening_since) >= kSilenceLimit;
}

std::string devices_held_reason(const model::Attempt& attempt, const model::Node& node,
                                std::size_t more) {
  const auto others = more == 0 ? "" : format(" and {} more", more);
  return format("{}; its devices stay held until the last processes of {}{} have ended",
                attempt.reason, describe_location(node), others);
}

void check_draining(Draft& draft, const model::Attempt& attempt, Time listening_since) {
  std::vector<const model::Node*> stuck;
  for (const model::Node* node : draft.nodes_of(attempt.id))
    if (node->state != model::NodeState::released &&
        is_overdue(draft, attempt, *node, listening_since))
      stuck.push_back(node);
  for (const model::Node* node : stuck) kill_node(draft, node->id);
  if (!stuck.empty() && draft.now() - *attempt.draining >= kStuckLimit)
    draft.runs.edit(attempt.id.run).reason =
        devices_held_reason(attempt, *stuck.front(), stuck.size() - 1);
}

void check_attempt(Draft& draft, const model::AttemptId& id, Time listening_since) {
  for (const model::Node* node : draft.nodes_of(id)) check_heartbeat(draft, *node, listening_since);
  check_ready(draft, *draft.attempts.find(id), listening_since);
  check_timeout(draft, *draft.attempts.find(id), listening_since);
  if (drains(draft, id)) check_draining(draft, *draft.attempts.find(id), listening_since);
}

}  // namespace

Result<void> handle_event(Draft& draft, const model::LaunchFailed& event) {
  const model::Node* node = find_live_node(draft, event.node);
  if (!node || node->state != model::NodeState::allocated) return {};
  mark_lost_and_kill(
      draft, event.node, model::Cause::launch_failed,
      format("{} could not be started: {}", describe_location(*node), one_line(event.message)),
      event.host_is_blameless ? HostBlame::not_counted : HostBlame::counted);
  return {};
}

Result<void> handle_event(Draft& draft, const model::NodeTerminated& event) {
  const model::Node* node = find_live_node(draft, event.node);
  if (!node) return {};
  const model::Attempt& attempt = *draft.attempts.find(event.node.attempt);
  if (node->state != model::NodeState::allocated)
    mark_agent_lost(draft, *node);
  else if (attempt.state < model::AttemptState::draining)
    mark_node_lost(draft, event.node, model::Cause::launch_failed,
                   format("the agent of {} ended before it called; its agent.log may say why",
                          describe_location(*node)));
  release_node(draft, event.node);
  return {};
}

// The ranks ended with their agent. Processes that had left its process group are killed at once. A
// node that never sent a heartbeat may be about to start.
Result<void> handle_event(Draft& draft, const model::AgentExited& event) {
  const model::Node* node = find_live_node(draft, event.node);
  if (!node || node->state == model::NodeState::allocated) return {};
  mark_agent_lost(draft, *node);
  kill_node(draft, event.node);
  return {};
}

Result<void> handle_event(Draft& draft, const model::Tick& event) {
  clear_expired_losses(draft);
  check_orphans(draft);
  for (const model::RunId& run : draft.open_runs()) {
    check_preconditions(draft, run);
    if (const model::Attempt* attempt = draft.live_attempt(run))
      check_attempt(draft, attempt->id, event.listening_since);
  }
  return {};
}

// The last heartbeats are kept: they show until when nodes ran, and whether a node failed before or
// after its peers. Ticks ensure that no node counts as silent since.
Result<void> handle_event(Draft&, const model::DaemonStarted&) { return {}; }

}  // namespace lockstep::step
