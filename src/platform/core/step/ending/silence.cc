#include "platform/core/step/ending/silence.h"

#include <algorithm>
#include <cstddef>
#include <set>
#include <string>
#include <vector>

#include "base/format.h"
#include "platform/core/model/command.h"
#include "platform/core/step/ending/attempt_end.h"
#include "platform/core/step/ending/reason_text.h"

namespace lockstep::step {
namespace {

// A large gang that cannot be reached must not push all other events out of its run.
constexpr std::ptrdiff_t kUnreachableEventsMax = 4;

bool is_external(const model::Attempt& attempt) { return attempt.engine == model::kExternalEngine; }

// Calls visit(attempt, node) for each node from which heartbeats are due.
template <class Visit>
void for_each_calling_node(const Draft& draft, const Visit& visit) {
  for (const model::Attempt* attempt : draft.live_attempts())
    for (const model::Node* node : draft.nodes_of(attempt->id))
      if (node->state != model::NodeState::allocated && !model::ranks_are_final(*node))
        visit(*attempt, *node);
}

std::ptrdiff_t count_unreachable(const Draft& draft, const model::AttemptId& attempt) {
  return std::ranges::count_if(draft.nodes_of(attempt), [](const model::Node* node) {
    return node->unreachable_since.has_value();
  });
}

Time last_sign(const model::Node& node, const model::Tick& tick) {
  return std::max(node.last_heartbeat, tick.listening_since);
}

void add_event(Draft& draft, const model::AttemptId& attempt, std::string what) {
  if (count_unreachable(draft, attempt) > kUnreachableEventsMax) return;
  model::add_audit_entry(draft.runs.edit(attempt.run).audit,
                         {.time = draft.now(), .by = "", .what = std::move(what)});
}

void mark_unreachable(Draft& draft, const model::NodeId& id, Time since) {
  model::Node& node = draft.nodes.edit(id);
  node.unreachable_since = since;
  add_event(draft, id.attempt,
            format("{} has been unreachable for {}; its ranks may go on", describe_location(node),
                   whole_seconds_text(draft.now() - since)));
}

void lose_silent_node(Draft& draft, const model::NodeId& id, model::Cause cause, std::string reason,
                      HostBlame blame) {
  mark_node_lost(draft, id, cause, std::move(reason), blame);
  kill_node(draft, id);
}

// Its ranks may use their whole grace period, if the order to stop has reached its agent.
Duration limit_while_draining(const Draft& draft, const model::Node& node) {
  const model::RunSpec& spec = draft.runs.find(node.id.attempt.run)->spec;
  return std::max(draft.settings().unreachable_after,
                  model::grace_period_of(spec, draft.settings()) + kStopMargin);
}

// The agent never called. It cannot while its node waits in a queue of the engine.
void check_first_call(Draft& draft, const model::Node& node, const model::Tick& tick,
                      bool is_widespread) {
  if (model::waits_in_engine(*draft.attempts.find(node.id.attempt), node)) return;
  const Duration limit =
      limit_while_silent(draft, draft.settings().first_call_limit, is_widespread);
  if (!is_silent_for(draft, node, tick, limit)) return;
  lose_silent_node(draft, node.id, model::Cause::launch_failed,
                   format("the agent of {} did not call within {}; its agent.log may say why",
                          describe_location(node), short_text(limit)),
                   is_widespread ? HostBlame::not_counted : HostBlame::counted);
}

// Nothing shows that the node's ranks have ended. Its host may only be cut off: all nodes of the
// attempt are silent, or the others make progress, which mostly needs all ranks.
bool may_go_on(const Draft& draft, const model::Node& node, const model::Tick& tick,
               Duration limit) {
  if (!tick.silent_hosts.contains(node.host)) return false;
  const auto nodes = draft.nodes_of(node.id.attempt);
  const auto is_heard = [](const model::Node* other) {
    return other->state != model::NodeState::allocated && !model::ranks_are_final(*other) &&
           !other->unreachable_since;
  };
  const auto makes_progress = [&](const model::Node* other) {
    return other->id != node.id && other->last_progress &&
           draft.now() - *other->last_progress < limit;
  };
  return std::ranges::none_of(nodes, is_heard) || std::ranges::any_of(nodes, makes_progress);
}

void check_silence(Draft& draft, const model::Node& node, const model::Tick& tick, Duration limit,
                   HostBlame blame) {
  if (!is_silent_for(draft, node, tick, limit)) return;
  lose_silent_node(
      draft, node.id, model::Cause::node_lost,
      format("the agent of {} was silent for {}", describe_location(node), short_text(limit)),
      blame);
}

}  // namespace

bool is_silent_for(const Draft& draft, const model::Node& node, const model::Tick& tick,
                   Duration limit) {
  const Time sign = last_sign(node, tick);
  return draft.now() - std::max(sign, tick.on_time_since) >= limit ||
         draft.now() - sign >= std::max(limit, draft.settings().widespread_lost_after);
}

void mark_unreachable_nodes(Draft& draft, const model::Tick& tick) {
  std::vector<model::NodeId> silent;
  for_each_calling_node(draft, [&](const model::Attempt& attempt, const model::Node& node) {
    if (attempt.state < model::AttemptState::draining && !node.unreachable_since &&
        is_silent_for(draft, node, tick, draft.settings().unreachable_after))
      silent.push_back(node.id);
  });
  for (const model::NodeId& id : silent)
    mark_unreachable(draft, id, last_sign(*draft.nodes.find(id), tick));
}

bool is_silence_widespread(const Draft& draft) {
  std::size_t all = 0;
  std::size_t unreachable = 0;
  std::set<std::string> hosts;
  for_each_calling_node(draft, [&](const model::Attempt& attempt, const model::Node& node) {
    if (is_external(attempt)) return;  // its host need not be one of the cluster
    ++all;
    if (!node.unreachable_since) return;
    ++unreachable;
    hosts.insert(node.host);
  });
  const auto percent = static_cast<std::size_t>(draft.settings().widespread_percent);
  return hosts.size() > 1 && unreachable * 100 > all * percent;
}

Duration limit_while_silent(const Draft& draft, Duration limit, bool is_widespread) {
  return is_widespread ? std::max(limit, draft.settings().widespread_lost_after) : limit;
}

void check_heartbeat(Draft& draft, const model::Node& node, const model::Tick& tick,
                     bool is_widespread) {
  if (model::ranks_are_final(node)) return;
  if (node.state == model::NodeState::allocated)
    return check_first_call(draft, node, tick, is_widespread);
  const model::Attempt& attempt = *draft.attempts.find(node.id.attempt);
  // A silent host makes no run wait, because its node is given up if it does not end.
  const bool drains = attempt.state == model::AttemptState::draining;
  const bool may_be_late = is_widespread && !(drains && tick.silent_hosts.contains(node.host));
  const Duration limit = limit_while_silent(
      draft, drains ? limit_while_draining(draft, node) : draft.settings().lost_after, may_be_late);
  if (drains || !may_go_on(draft, node, tick, limit))
    return check_silence(draft, node, tick, limit,
                         may_be_late ? HostBlame::not_counted : HostBlame::counted);
  if (attempt.lease)
    check_silence(draft, node, tick, std::max(limit, *attempt.lease), HostBlame::not_counted);
}

void mark_reachable(Draft& draft, const model::NodeId& id) {
  const model::Node& known = *draft.nodes.find(id);
  if (!known.unreachable_since) return;
  add_event(draft, id.attempt,
            format("{} is reachable again after {}", describe_location(known),
                   whole_seconds_text(draft.now() - *known.unreachable_since)));
  draft.nodes.edit(id).unreachable_since.reset();
}

bool has_unreachable_node(const Draft& draft, const model::AttemptId& attempt) {
  return count_unreachable(draft, attempt) > 0;
}

}  // namespace lockstep::step
