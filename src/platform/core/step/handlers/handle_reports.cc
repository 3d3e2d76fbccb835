// Reports of agents about their nodes.
//
// Reports may be repeated, late or out of order. All of them are harmless: a node's state only
// advances, and an ended rank stays ended. Reports of ended attempts are ignored.
#include <algorithm>
#include <utility>

#include "base/format.h"
#include "platform/core/step/ending/attempt_end.h"
#include "platform/core/step/ending/orphans.h"
#include "platform/core/step/ending/reason_text.h"
#include "platform/core/step/ending/silence.h"
#include "platform/core/step/handlers/event_handlers.h"
#include "platform/core/step/handlers/second_agent.h"

namespace lockstep::step {
namespace {

// While nothing else changes, heartbeats and steps are stored no more often than this, except for
// the first heartbeat since the daemon listens.
constexpr Duration kHeartbeatStoreInterval = std::chrono::seconds(5);

Error refuse(const model::NodeReport& report, std::string_view what) {
  return {Code::invalid, format("report of node {}: {}", text(report.node), what)};
}

bool is_port(int port) { return port > 0 && port < 65536; }

Result<void> check_rank(const model::NodeReport& report, const model::Node& node,
                        const model::RunSpec& spec, const model::Rank& rank) {
  if (rank.local_rank < 0 || std::cmp_greater_equal(rank.local_rank, node.devices.size()) ||
      rank.rank != node.id.index * spec.devices + rank.local_rank)
    return refuse(report,
                  format("it has no rank {} with local rank {}", rank.rank, rank.local_rank));
  return {};
}

// The launcher has numbered the ranks.
Result<void> check_external_rank(const model::NodeReport& report, const model::Node& node,
                                 const model::Rank& rank) {
  const auto clashes = [&](const model::Rank& other) {
    return (other.rank == rank.rank) != (other.local_rank == rank.local_rank);
  };
  if (rank.rank >= 0 && rank.local_rank >= 0 && rank.local_rank < model::kDevicesMax &&
      std::ranges::none_of(node.ranks, clashes) && std::ranges::none_of(report.ranks, clashes))
    return {};
  return refuse(
      report, format("rank {} with local rank {} is none of its job", rank.rank, rank.local_rank));
}

Result<void> check_external_report(const model::NodeReport& report, const model::Node& node) {
  if (report.state != model::NodeState::running)
    return refuse(report, "the node of an external run is running");
  if (report.ranks.size() > static_cast<std::size_t>(model::kDevicesMax))
    return refuse(report, format("it has more than {} ranks", model::kDevicesMax));
  for (const model::Rank& rank : report.ranks) TRY(check_external_rank(report, node, rank));
  return {};
}

Result<void> check_report(const model::NodeReport& report, const model::Node& node,
                          const model::RunSpec& spec) {
  if (report.state > model::NodeState::stopping)
    return refuse(report, format("'{}' is not for agents to say", text(report.state)));
  for (const model::Rank& rank : report.ranks) TRY(check_rank(report, node, spec, rank));
  const bool offers =
      report.state == model::NodeState::ready || report.state == model::NodeState::running;
  if (!offers) return {};
  if (report.address.empty()) return refuse(report, "it is ready without an address");
  if (node.id.index == 0 && !(is_port(report.master_port) && is_port(report.rendezvous_port)))
    return refuse(report, "node 0 must offer a master port and a rendezvous port");
  return {};
}

// The difference of two clocks of one boot is that of their zeros. For another machine it is
// unknown, and the clocks count as equal. In both cases no reported time is in the future.
model::NodeReport in_daemon_time(const Draft& draft, model::NodeReport report) {
  const bool same_boot = report.clock && draft.clock && !report.clock->boot.empty() &&
                         report.clock->boot == draft.clock->boot;
  const Duration by = same_boot ? draft.clock->zero - report.clock->zero : Duration(0);
  for (model::Rank& rank : report.ranks)
    for (auto* moment : {&rank.ended, &rank.stalled_since, &rank.activity_since})
      if (*moment) *moment = std::min(**moment + by, draft.now());
  if (report.idle_since) *report.idle_since = std::min(*report.idle_since + by, draft.now());
  return report;
}

// Known values that are not reported again stay. While an attempt drains, so do the signs of a
// hang: by then the daemon's own signals wake its ranks.
void keep_known_state(model::Rank& rank, const model::Rank& known, bool draining) {
  rank.step = std::max(rank.step, known.step);
  const bool stood =
      known.activity == model::Activity::stopped || known.activity == model::Activity::blocked;
  if (rank.activity == model::Activity::unknown || (draining && stood)) {
    rank.activity = known.activity;
    rank.activity_since = known.activity_since;
  }
  if (draining && !rank.stalled_since) rank.stalled_since = known.stalled_since;
}

void merge_rank(model::Node& node, model::Rank rank, bool draining, Time now) {
  if (rank.state != model::RankState::running && !rank.ended) rank.ended = now;
  const auto known = std::ranges::find(node.ranks, rank.rank, &model::Rank::rank);
  if (rank.step > (known == node.ranks.end() ? -1 : known->step)) node.last_progress = now;
  if (known == node.ranks.end()) {
    const auto after = std::ranges::upper_bound(node.ranks, rank.rank, {}, &model::Rank::rank);
    node.ranks.insert(after, rank);
  } else if (known->state == model::RankState::running || rank.restarts > known->restarts) {
    keep_known_state(rank, *known, draining);
    *known = rank;
  }
}

void merge_addresses(model::Node& node, const model::NodeReport& report) {
  if (!report.address.empty()) node.address = report.address;
  if (report.master_port) node.master_port = report.master_port;
  if (report.rendezvous_port) node.rendezvous_port = report.rendezvous_port;
  if (report.agent_pid) node.agent_pid = report.agent_pid;
  if (report.stop_reason != model::StopReason::none) node.stop_reason = report.stop_reason;
  if (!report.message.empty()) node.message = one_line(report.message);
}

// It calls before its engine has named the host that it chose: the limits of the start count from
// now.
void admit_unplaced(Draft& draft, const model::Node& node, const model::Attempt& attempt) {
  if (node.state == model::NodeState::allocated && !attempt.is_placed && node.host.empty())
    draft.attempts.edit(attempt.id).admitted = draft.now();
}

void merge(Draft& draft, const model::NodeReport& report, const model::Attempt& attempt) {
  model::Node& node = draft.nodes.edit(report.node);
  const model::Node before = node;
  if (report.state > before.state) admit_unplaced(draft, before, attempt);
  mark_reachable(draft, report.node);
  if (node.agents.empty() && !report.agent.id.empty()) add_agent(node, report.agent);
  if (report.state >= node.state) merge_addresses(node, report);
  node.state = std::max(node.state, report.state);
  node.idle_since = report.idle_since;
  if (!report.nccl_network.empty()) node.nccl_network = one_line(report.nccl_network);
  for (const model::Rank& rank : report.ranks)
    merge_rank(node, rank, attempt.draining.has_value(), draft.now());
  const bool since_draining = attempt.draining && node.last_heartbeat <= *attempt.draining;
  const bool again = node.last_heartbeat < report.listening_since;
  if (model::has_material_change(before, node) || since_draining || again ||
      draft.now() - node.last_heartbeat >= kHeartbeatStoreInterval)
    node.last_heartbeat = draft.now();
  else
    node = before;
}

bool has_run(const model::Node* node) {
  return node->state == model::NodeState::running || model::all_ranks_ended(*node);
}

// The node stopped, or is stopping, its ranks without a command.
bool stops_unasked(const model::Node* node) {
  return node->state == model::NodeState::stopping ||
         std::ranges::any_of(node->ranks, [](const model::Rank& rank) {
           return rank.signalled_by_agent && rank.state != model::RankState::running;
         });
}

// An agent ended its ranks at the end of the time that they may run without a daemon. The ranks of
// other nodes may have run with them and ended likewise, or never got `start`. These nodes have to
// report that themselves, as `reporter` just did.
void handle_agent_timeout(Draft& draft, const model::Attempt& attempt, const model::Node& reporter,
                          Time until) {
  const model::Run& run = *draft.runs.find(attempt.id.run);
  const auto nodes = draft.nodes_of(attempt.id);
  const bool ran = stops_unasked(&reporter) || model::all_ranks_ended(reporter);
  if (all_ranks_ran_until(run, attempt, nodes, until)) {
    const AttemptCause cause = cause_of_agent_timeout(run, attempt, until);
    begin_draining(draft, attempt.id, cause.cause, cause.reason);
  } else if (!ran || ranks_ended_late(reporter, nodes)) {
    begin_draining(draft, attempt.id, model::Cause::launch_failed,
                   not_started_reason(draft, reporter));
  }
}

void handle_unasked_stop(Draft& draft, const model::Attempt& attempt, const model::Node& node,
                         const model::Node& reporter) {
  const auto with_message = [&](std::string reason) {
    return node.message.empty() ? reason : format("{}: {}", reason, node.message);
  };
  if (!model::all_ranks_started(node))
    return begin_draining(draft, attempt.id, model::Cause::launch_failed,
                          with_message(describe_location(node) + " could not start its ranks"));
  // The report of its ranks' end can be late, too.
  const Time until = std::min(draft.now(), model::last_rank_end(node).value_or(draft.now()));
  if (stopped_by_timeout(node)) return handle_agent_timeout(draft, attempt, reporter, until);
  if (stopped_by_signal(node))
    return begin_draining(draft, attempt.id, model::Cause::node_stopped, node_stop_reason(node));
  begin_draining(draft, attempt.id, model::Cause::node_lost,
                 with_message(describe_location(node) + " stopped its ranks on its own"));
}

void mark_running(Draft& draft, const model::AttemptId& id) {
  model::Attempt& attempt = draft.attempts.edit(id);
  attempt.state = model::AttemptState::running;
  attempt.started = draft.now();
  model::Run& run = draft.runs.edit(id.run);
  run.state = model::RunState::running;
  if (!run.started) run.started = draft.now();
}

// Ranks that were lost before are mentioned; the others did not need them.
std::string success_reason(int ranks, const std::vector<const model::Node*>& nodes) {
  int lost = 0;
  for (const model::Node* node : nodes)
    lost += static_cast<int>(std::ranges::count_if(node->ranks, model::ended_badly));
  if (lost > 0)
    return format("{} of {} ranks exited with code 0; the others were lost before", ranks - lost,
                  ranks);
  if (ranks == 1) return "its rank exited with code 0";
  return format("all {} ranks exited with code 0", ranks);
}

// Shows that a run continues from its checkpoint. It may come together with the report of a rank's
// end.
void record_checkpoint(Draft& draft, const model::NodeReport& report) {
  const model::Attempt& attempt = *draft.attempts.find(report.node.attempt);
  if (!report.last_checkpoint || !attempt.started) return;
  const Time saved = std::clamp(*report.last_checkpoint, *attempt.started, draft.now());
  if (!attempt.last_checkpoint || *attempt.last_checkpoint < saved)
    draft.attempts.edit(attempt.id).last_checkpoint = saved;
  if (report.last_checkpoint_step && (!attempt.last_checkpoint_step ||
                                      *attempt.last_checkpoint_step < *report.last_checkpoint_step))
    draft.attempts.edit(attempt.id).last_checkpoint_step = report.last_checkpoint_step;
}

// Advances the attempt by the report, while nothing has failed.
void advance(Draft& draft, const model::AttemptId& id, const model::NodeId& reporter) {
  const model::Attempt& attempt = *draft.attempts.find(id);
  if (attempt.state == model::AttemptState::reserved)
    draft.attempts.edit(id).state = model::AttemptState::launching;
  const auto nodes = draft.nodes_of(id);
  const auto stopped = std::ranges::find_if(nodes, stops_unasked);
  if (stopped != nodes.end())
    return handle_unasked_stop(draft, *draft.attempts.find(id), **stopped,
                               *draft.nodes.find(reporter));
  if (!std::ranges::all_of(nodes, has_run)) return;
  if (draft.attempts.find(id)->state != model::AttemptState::running) mark_running(draft, id);
  if (std::ranges::all_of(nodes,
                          [](const model::Node* node) { return model::all_ranks_ended(*node); })) {
    begin_draining(draft, id, model::Cause::ok,
                   success_reason(model::rank_count(draft.runs.find(id.run)->spec), nodes));
  }
}

}  // namespace

Result<void> handle_event(Draft& draft, const model::NodeReport& report) {
  const model::AttemptId& id = report.node.attempt;
  const model::Attempt* attempt = draft.live_attempt(id.run);
  const model::Attempt* known = draft.attempts.find(id);
  const model::Node* node = draft.nodes.find(report.node);
  if (draft.orphans.find({report.generation, report.node}))
    return record_orphan_report(draft, report);
  if (node && known->generation == report.generation &&
      model::is_second_agent(*node, report.agent.id)) {
    refuse_second_agent(draft, report);
    return {};
  }
  if (!node || !attempt || attempt->id != id || attempt->generation != report.generation) return {};
  if (node->state == model::NodeState::released || node->state == model::NodeState::lost) return {};
  const model::Run& run = *draft.runs.find(id.run);
  const bool external = model::is_external(run);
  TRY(external ? check_external_report(report, *node) : check_report(report, *node, run.spec));
  merge(draft, in_daemon_time(draft, report), *attempt);
  if (external) {
    record_checkpoint(draft, report);
    return {};  // ticks find its end
  }
  update_cause(draft, id);
  if (draft.attempts.find(id)->state < model::AttemptState::draining)
    advance(draft, id, report.node);
  record_checkpoint(draft, report);
  return {};
}

}  // namespace lockstep::step
