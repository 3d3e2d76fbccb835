// Events of the engine, and ticks: every wait of the platform ends here.
#include <algorithm>

#include "base/format.h"
#include "map/query.h"
#include "platform/core/model/command.h"
#include "platform/core/step/budget/charges.h"
#include "platform/core/step/budget/idle.h"
#include "platform/core/step/ending/attempt_end.h"
#include "platform/core/step/ending/external_end.h"
#include "platform/core/step/ending/given_up.h"
#include "platform/core/step/ending/host_losses.h"
#include "platform/core/step/ending/orphans.h"
#include "platform/core/step/ending/reason_text.h"
#include "platform/core/step/ending/silence.h"
#include "platform/core/step/handlers/event_handlers.h"
#include "platform/core/step/handlers/host_facts.h"
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

// A loss that the engine explains has its reason. One by preemption is a stop by the engine.
void mark_lost_by_engine(Draft& draft, const model::Node& node, const model::Observation& seen,
                         model::Cause cause, std::string reason, HostBlame blame) {
  if (seen.blame == model::EndBlame::preemption)
    return mark_node_lost(draft, node.id, model::Cause::node_stopped,
                          format("{} was taken back by its engine: {}", describe_location(node),
                                 one_line(seen.reason)),
                          HostBlame::not_counted);
  if (seen.out_of_memory)
    return mark_node_lost(draft, node.id, model::Cause::oom, std::move(reason),
                          HostBlame::not_counted);
  mark_node_lost(draft, node.id, cause, std::move(reason), blame);
}

// The agent has not reached the daemon for so long that it ended its node.
bool has_lease_ended(const Draft& draft, const model::Node& node) {
  const auto& lease = draft.attempts.find(node.id.attempt)->lease;
  return lease && draft.now() - node.last_heartbeat >= *lease;
}

HostBlame host_blame_of(const model::Observation& seen) {
  return seen.blame == model::EndBlame::engine ? HostBlame::not_counted : HostBlame::counted;
}

// The job of an attempt whose engine chooses the hosts ends with its first host. So the other nodes
// end with it, also if the ranks on that host were final.
bool ends_its_job(const model::Attempt& attempt, const model::Node& node,
                  const model::Observation& seen) {
  return !attempt.is_placed && !attempt.draining && node.id.index == 0 &&
         seen.blame == model::EndBlame::host;
}

// The agent ended. The node is lost, unless its ranks are final, or the daemon killed it while its
// agent was still reporting, too slow to stop.
void mark_agent_lost(Draft& draft, const model::Node& node, const model::Observation& seen) {
  const model::Attempt& attempt = *draft.attempts.find(node.id.attempt);
  if ((model::ranks_are_final(node) && !ends_its_job(attempt, node, seen)) ||
      (node.kill_requested_at && attempt.draining && node.last_heartbeat > *attempt.draining))
    return;
  const std::string where = describe_location(node);
  if (seen.reason.empty() && has_lease_ended(draft, node))
    return mark_node_lost(draft, node.id, model::Cause::node_lost,
                          format("the agent of {} did not reach the daemon for {}, its lease, and "
                                 "ended",
                                 where, short_text(*attempt.lease)),
                          HostBlame::not_counted);
  mark_lost_by_engine(draft, node, seen, model::Cause::node_lost,
                      seen.reason.empty()
                          ? format("the agent of {} ended and gave no reason", where)
                          : format("the agent of {} ended: {}", where, one_line(seen.reason)),
                      host_blame_of(seen));
}

// The agent never called. Without a reason, it may have been the host. A refusal is final.
void mark_not_started(Draft& draft, const model::Node& node, const model::Observation& seen) {
  const std::string where = describe_location(node);
  if (seen.blame == model::EndBlame::refusal)
    return mark_node_lost(draft, node.id, model::Cause::refused,
                          format("{} was refused: {} may not start: {}", text(node.id.attempt.run),
                                 where, one_line(seen.reason)),
                          HostBlame::not_counted);
  if (seen.reason.empty())
    return mark_node_lost(
        draft, node.id, model::Cause::launch_failed,
        format("the agent of {} ended before it called; its agent.log may say why", where));
  mark_lost_by_engine(draft, node, seen, model::Cause::launch_failed,
                      format("{} could not be started: {}", where, one_line(seen.reason)),
                      host_blame_of(seen));
}

void handle_gone(Draft& draft, const model::Node& node, const model::Observation& seen) {
  const model::NodeId id = node.id;
  if (node.state != model::NodeState::allocated)
    mark_agent_lost(draft, node, seen);
  else if (!drains(draft, id.attempt))
    mark_not_started(draft, node, seen);
  release_node(draft, id);
}

// The ranks ended with their agent. Processes that had left its process group are killed at once. A
// node that never sent a heartbeat may be about to start.
void handle_missing_agent(Draft& draft, const model::Node& node, const model::Observation& seen) {
  const model::NodeId id = node.id;
  if (node.state == model::NodeState::allocated) return;
  mark_agent_lost(draft, node, seen);
  kill_node(draft, id);
}

const model::Node* find_pending_node(const Draft& draft, const model::AttemptId& attempt) {
  for (const model::Node* node : draft.nodes_of(attempt))
    if (!node->pending_reason.empty()) return node;
  return nullptr;
}

constexpr std::string_view kWaitsInEngine = "waits in the queue of ";

// While a run waits in the engine's own queue, that is its reason. Its ranks may run before the
// engine lists that they do.
void set_pending_reason(Draft& draft, const model::AttemptId& id) {
  const model::Attempt& attempt = *draft.attempts.find(id);
  if (attempt.state >= model::AttemptState::draining) return;
  const model::Node* pending =
      attempt.state < model::AttemptState::running ? find_pending_node(draft, id) : nullptr;
  const std::string& known = draft.runs.find(id.run)->reason;
  if (!pending && !known.starts_with(kWaitsInEngine)) return;
  const std::string reason =
      pending ? format("{}{}: {}", kWaitsInEngine, attempt.engine, pending->pending_reason)
              : std::string();
  if (known != reason) draft.runs.edit(id.run).reason = reason;
}

// The limits of the start count from the moment at which the engine begins to start the node.
void update_from_engine(Draft& draft, const model::Node& known, const model::Observation& seen) {
  model::Node after = known;
  if (!seen.handle.empty()) after.handle = seen.handle;
  if (!seen.incarnation.empty()) after.incarnation = seen.incarnation;
  after.pending_reason = model::pending_reason_of(seen);
  if (after == known) return;
  const model::NodeId id = known.id;
  const bool was_admitted = !known.pending_reason.empty() && after.pending_reason.empty();
  if (was_admitted && known.state == model::NodeState::allocated)
    after.last_heartbeat = draft.now();
  draft.nodes.edit(id) = std::move(after);
  if (was_admitted) draft.attempts.edit(id.attempt).admitted = draft.now();
  set_pending_reason(draft, id.attempt);
}

// The engine has started the node there, so the limits of the start count from now.
void name_host(Draft& draft, const model::NodeId& id, const std::string& host) {
  charge_for_host(draft, id, host);
  model::Node& node = draft.nodes.edit(id);
  node.host = host;
  if (node.state != model::NodeState::allocated) return;
  node.last_heartbeat = draft.now();
  draft.attempts.edit(id.attempt).admitted = draft.now();
}

// It waits in the engine's queue, or its engine has not named its host yet.
bool is_any_node_unstarted(const Draft& draft, const model::Attempt& attempt) {
  return std::ranges::any_of(draft.nodes_of(attempt.id), [&](const model::Node* node) {
    return model::waits_in_engine(attempt, *node);
  });
}

// A daemon that was away sent no `start`: that time does not count. Nor does it reach many nodes
// while the silence is widespread.
void check_ready(Draft& draft, const model::Attempt& attempt, Time listening_since,
                 bool is_widespread) {
  const Time begun = std::max(attempt.created, attempt.admitted.value_or(attempt.created));
  const Duration waited = draft.now() - std::max(begun, listening_since);
  if (attempt.state >= model::AttemptState::running || is_any_node_unstarted(draft, attempt) ||
      waited < limit_while_silent(draft, draft.settings().start_limit, is_widespread))
    return;
  for (const model::Node* node : draft.nodes_of(attempt.id))
    if (node->state != model::NodeState::running)
      return begin_draining(draft, attempt.id, model::Cause::launch_failed,
                            not_started_reason(draft, *node));
}

bool all_heartbeats_since(const Draft& draft, const model::Attempt& attempt, Time since) {
  return std::ranges::all_of(draft.nodes_of(attempt.id), [&](const model::Node* node) {
    return node->last_heartbeat >= since;
  });
}

// Agents enforce the time limit themselves. After a break their reports come first: the ranks may
// have ended in time while the daemon was away, or with the host, if an agent does not report
// again. The same holds for an unreachable node, and for a slow daemon.
bool runs_and_is_heard(const Draft& draft, const model::Attempt& attempt, const model::Tick& tick) {
  if (attempt.state != model::AttemptState::running) return false;
  if (has_unreachable_node(draft, attempt.id)) return false;
  const Time since = std::max(tick.listening_since, tick.on_time_since);
  return draft.now() - since >= kReconnectLimit && all_heartbeats_since(draft, attempt, since);
}

void check_timeout(Draft& draft, const model::Attempt& attempt, const model::Tick& tick) {
  if (!runs_and_is_heard(draft, attempt, tick)) return;
  const model::Run& run = *draft.runs.find(attempt.id.run);
  if (run.time_used + (draft.now() - *attempt.started) >= model::time_limit(run))
    begin_draining(draft, attempt.id, model::Cause::timeout, timeout_reason(run));
}

// A node with a `stop` command has the grace period. Once its ranks have ended it has longer, while
// it sends heartbeats, to send its last logs. It also has longer while the daemon is slow or most
// nodes are silent, because the command may not reach its agent.
bool is_overdue(const Draft& draft, const model::Attempt& attempt, const model::Node& node,
                const model::Tick& tick, bool is_widespread) {
  const bool is_pending = node.state == model::NodeState::allocated && !node.pending_reason.empty();
  if (node.state == model::NodeState::lost || is_pending) return true;
  const Time stop = std::max(*attempt.draining, tick.listening_since);
  if (draft.now() - stop >= draft.settings().log_delivery_limit) return true;
  const model::RunSpec& spec = draft.runs.find(attempt.id.run)->spec;
  const bool may_be_late = is_widespread && !tick.silent_hosts.contains(node.host);
  if (may_be_late || draft.now() - std::max(stop, tick.on_time_since) <
                         model::grace_period_of(spec, draft.settings()) + kStopMargin)
    return false;
  return !model::ranks_are_final(node) ||
         draft.now() - std::max(node.last_heartbeat, tick.listening_since) >=
             draft.settings().unreachable_after;
}

std::string devices_held_reason(const model::Attempt& attempt, const model::Node& node,
                                std::size_t more) {
  const auto others = more == 0 ? "" : format(" and {} more", more);
  return format("{}; its devices stay held until the last processes of {}{} have ended",
                attempt.reason, describe_location(node), others);
}

void check_draining(Draft& draft, const model::Attempt& attempt, const model::Tick& tick,
                    bool is_widespread) {
  std::vector<model::NodeId> stuck;
  for (const model::Node* node : draft.nodes_of(attempt.id))
    if (node->state != model::NodeState::released &&
        is_overdue(draft, attempt, *node, tick, is_widespread))
      stuck.push_back(node->id);
  for (const model::NodeId& node : stuck) kill_node(draft, node);
  if (!stuck.empty() && draft.now() - *attempt.draining >= kStuckLimit)
    draft.runs.edit(attempt.id.run).reason =
        devices_held_reason(attempt, *draft.nodes.find(stuck.front()), stuck.size() - 1);
  give_up_stuck_nodes(draft, attempt.id, stuck, tick.silent_hosts);
}

void check_attempt(Draft& draft, const model::AttemptId& id, const model::Tick& tick,
                   bool is_widespread) {
  if (model::is_external(*draft.runs.find(id.run))) return check_external_run(draft, id, tick);
  for (const model::Node* node : draft.nodes_of(id))
    check_heartbeat(draft, *node, tick, is_widespread);
  check_ready(draft, *draft.attempts.find(id), tick.listening_since, is_widespread);
  check_timeout(draft, *draft.attempts.find(id), tick);
  if (runs_and_is_heard(draft, *draft.attempts.find(id), tick)) check_idle(draft, id);
  if (drains(draft, id)) check_draining(draft, *draft.attempts.find(id), tick, is_widespread);
}

}  // namespace

Result<void> handle_event(Draft& draft, const model::NodeSeen& event) {
  const model::Attempt* attempt = draft.attempts.find(event.node.attempt);
  if (attempt && attempt->engine == model::kExternalEngine) return {};  // no engine has it
  const model::Node* node = find_live_node(draft, event.node);
  if (!node) {
    const bool is_gone = event.seen.phase == model::NodePhase::gone;
    const bool is_starting = event.seen.phase == model::NodePhase::starting;
    if (!is_gone && !is_starting) take_back_node(draft, event.node);
    if (is_gone && draft.given_up.find(event.node)) free_given_up_node(draft, event.node);
    return {};
  }
  if (node->host.empty() && !event.seen.host.empty()) name_host(draft, event.node, event.seen.host);
  const model::Node known = *draft.nodes.find(event.node);
  if (event.seen.phase == model::NodePhase::gone) {
    handle_gone(draft, known, event.seen);
    return {};
  }
  update_from_engine(draft, known, event.seen);
  if (event.seen.phase == model::NodePhase::present && !event.seen.has_agent)
    handle_missing_agent(draft, *draft.nodes.find(event.node), event.seen);
  return {};
}

// Runs there go on: only new ones are not placed there.
Result<void> handle_event(Draft& draft, const model::HostsSeen& event) {
  for (const map::Host* host : map::hosts(draft.map())) {
    const auto found = event.unavailable.find(host->id);
    const std::string reason = found == event.unavailable.end() ? "" : one_line(found->second);
    const model::HostRow* known = draft.hosts.find(host->id);
    if ((known ? known->unavailable : "") == reason) continue;
    draft.hosts.edit_or_add(host->id).unavailable = reason;
  }
  return {};
}

Result<void> handle_event(Draft& draft, const model::Tick& event) {
  clear_expired_losses(draft);
  adopt_next_facts(draft);
  check_orphans(draft);
  mark_unreachable_nodes(draft, event);
  const bool is_widespread = is_silence_widespread(draft);
  for (const model::AttemptId& attempt : draft.live_attempt_ids()) {
    renew_charge(draft, attempt);
    check_attempt(draft, attempt, event, is_widespread);
  }
  expire_grants(draft);
  for (const model::RunId& run : draft.conditional_runs()) check_preconditions(draft, run);
  check_given_up_nodes(draft, event.silent_hosts);
  return {};
}

// The last heartbeats are kept: they show until when nodes ran, and whether a node failed before or
// after its peers. Ticks ensure that no node counts as silent since.
Result<void> handle_event(Draft&, const model::DaemonStarted&) { return {}; }

}  // namespace lockstep::step
