// What agents say of their nodes.
//
// Reports may be repeated, late or out of order: a node's state only moves on, and a rank that has
// ended stays so, so that each of them is harmless. Those of attempts that have ended are ignored.
#include <algorithm>
#include <utility>

#include "base/format.h"
#include "platform/core/step/ending.h"
#include "platform/core/step/event_handlers.h"
#include "platform/core/step/orphans.h"
#include "platform/core/step/words.h"

namespace lockstep {
namespace {

// While nothing else changes, being heard and the steps are written down no more often than this,
// but for the first word since the daemon listens.
constexpr Duration kHeardInterval = std::chrono::seconds(5);

Error refuse(const NodeReport& report, std::string_view what) {
  return {Code::invalid, format("report of node {}: {}", text(report.node), what)};
}

bool is_port(int port) { return port > 0 && port < 65536; }

Result<void> check_rank(const NodeReport& report, const Node& node, const RunSpec& spec,
                        const Rank& rank) {
  if (rank.local_rank < 0 || std::cmp_greater_equal(rank.local_rank, node.devices.size()) ||
      rank.rank != node.id.index * spec.devices + rank.local_rank)
    return refuse(report,
                  format("it has no rank {} with local rank {}", rank.rank, rank.local_rank));
  return {};
}

Result<void> check_report(const NodeReport& report, const Node& node, const RunSpec& spec) {
  if (report.state < NodeState::ready || report.state > NodeState::stopping)
    return refuse(report, format("'{}' is not for agents to say", text(report.state)));
  for (const Rank& rank : report.ranks) TRY(check_rank(report, node, spec, rank));
  const bool offers = report.state == NodeState::ready || report.state == NodeState::running;
  if (!offers) return {};
  if (report.address.empty()) return refuse(report, "it is ready without an address");
  if (node.id.index == 0 && !(is_port(report.master_port) && is_port(report.rendezvous_port)))
    return refuse(report, "node 0 must offer a master port and a rendezvous port");
  return {};
}

// The difference of two clocks of one boot is that of their zeros. On another machine it is not
// known, and the clocks count as equal. Either way what is told has happened.
NodeReport by_our_clock(const Draft& draft, NodeReport report) {
  const bool same_boot = report.clock && draft.clock && !report.clock->boot.empty() &&
                         report.clock->boot == draft.clock->boot;
  const Duration by = same_boot ? draft.clock->zero - report.clock->zero : Duration(0);
  for (Rank& rank : report.ranks)
    for (auto* moment : {&rank.ended, &rank.stalled_since, &rank.activity_since})
      if (*moment) *moment = std::min(**moment + by, draft.now());
  return report;
}

// What was known and is not told again stays. While an attempt drains, so does what was seen of a
// hang: by then our own signals move its ranks.
void keep_signs(Rank& rank, const Rank& known, bool draining) {
  rank.step = std::max(rank.step, known.step);
  const bool stood = known.activity == Activity::stopped || known.activity == Activity::blocked;
  if (rank.activity == Activity::unknown || (draining && stood)) {
    rank.activity = known.activity;
    rank.activity_since = known.activity_since;
  }
  if (draining && !rank.stalled_since) rank.stalled_since = known.stalled_since;
}

void merge_rank(Node& node, Rank rank, bool draining, Time now) {
  if (rank.state != RankState::running && !rank.ended) rank.ended = now;
  const auto known = std::ranges::find(node.ranks, rank.rank, &Rank::rank);
  if (known == node.ranks.end()) {
    const auto after = std::ranges::upper_bound(node.ranks, rank.rank, {}, &Rank::rank);
    node.ranks.insert(after, rank);
  } else if (known->state == RankState::running) {
    keep_signs(rank, *known, draining);
    *known = rank;
  }
}

void merge_addresses(Node& node, const NodeReport& report) {
  if (!report.address.empty()) node.address = report.address;
  if (report.master_port) node.master_port = report.master_port;
  if (report.rendezvous_port) node.rendezvous_port = report.rendezvous_port;
  if (report.agent_pid) node.agent_pid = report.agent_pid;
  if (report.stop_reason != StopReason::none) node.stop_reason = report.stop_reason;
  if (!report.message.empty()) node.message = one_line(report.message);
}

void merge(Draft& draft, const NodeReport& report, const Attempt& attempt) {
  Node& node = draft.nodes.edit(report.node);
  const Node before = node;
  if (report.state >= node.state) merge_addresses(node, report);
  node.state = std::max(node.state, report.state);
  for (const Rank& rank : report.ranks)
    merge_rank(node, rank, attempt.draining.has_value(), draft.now());
  const bool since_draining = attempt.draining && node.last_heard <= *attempt.draining;
  const bool again = node.last_heard < report.listening_since;
  if (has_news(before, node) || since_draining || again ||
      draft.now() - node.last_heard >= kHeardInterval)
    node.last_heard = draft.now();
  else
    node = before;
}

bool has_run(const Node* node) {
  return node->state == NodeState::running || all_ranks_ended(*node);
}

// It ended its ranks, or does, though nobody had told it to.
bool stops_on_its_own(const Node* node) {
  return node->state == NodeState::stopping ||
         std::ranges::any_of(node->ranks, [](const Rank& rank) {
           return rank.signalled_by_us && rank.state != RankState::running;
         });
}

// At the end of the time for which, without a daemon, its agent may let its ranks run. Those of the
// other nodes may have run with them and ended likewise, or were never told to start: that is for
// these nodes to say, of which `reporter` just has.
void judge_own_time_out(Draft& draft, const Attempt& attempt, const Node& reporter, Time until) {
  const Run& run = *draft.runs.find(attempt.id.run);
  const auto nodes = draft.nodes_of(attempt.id);
  const bool ran = stops_on_its_own(&reporter) || all_ranks_ended(reporter);
  if (gang_ran(run, attempt, nodes, until))
    begin_draining(draft, attempt.id, Cause::timeout, time_out_of(run));
  else if (!ran || ended_apart(reporter, nodes))
    begin_draining(draft, attempt.id, Cause::launch_failed, did_not_start(reporter));
}

void judge_own_stop(Draft& draft, const Attempt& attempt, const Node& node, const Node& reporter) {
  const auto with_message = [&](std::string words) {
    return node.message.empty() ? words : format("{}: {}", words, node.message);
  };
  if (!all_ranks_began(node))
    return begin_draining(draft, attempt.id, Cause::launch_failed,
                          with_message(place_of(node) + " could not start its ranks"));
  // Its ranks' end, too, we may hear of late.
  const Time until = std::min(draft.now(), last_end(node).value_or(draft.now()));
  if (found_time_up(node)) return judge_own_time_out(draft, attempt, reporter, until);
  if (was_asked_to_end(node))
    return begin_draining(draft, attempt.id, Cause::node_stopped, stopped_node(node));
  begin_draining(draft, attempt.id, Cause::node_lost,
                 with_message(place_of(node) + " stopped its ranks on its own"));
}

void mark_running(Draft& draft, const AttemptId& id) {
  Attempt& attempt = draft.attempts.edit(id);
  attempt.state = AttemptState::running;
  attempt.started = draft.now();
  Run& run = draft.runs.edit(id.run);
  run.state = RunState::running;
  if (!run.started) run.started = draft.now();
}

// Of ranks that were lost on the way the others were not in need.
std::string good_end_of(int ranks, const std::vector<const Node*>& nodes) {
  int lost = 0;
  for (const Node* node : nodes)
    lost += static_cast<int>(std::ranges::count_if(node->ranks, ended_badly));
  if (lost > 0)
    return format("{} of {} ranks exited with code 0; the others were lost before", ranks - lost,
                  ranks);
  if (ranks == 1) return "its rank exited with code 0";
  return format("all {} ranks exited with code 0", ranks);
}

// By it a run is known to go on from where it was. It may come with the word of a rank's end.
void note_checkpoint(Draft& draft, const NodeReport& report) {
  const Attempt& attempt = *draft.attempts.find(report.node.attempt);
  if (!report.saved || !attempt.started) return;
  const Time saved = std::clamp(*report.saved, *attempt.started, draft.now());
  if (!attempt.saved || *attempt.saved < saved) draft.attempts.edit(attempt.id).saved = saved;
  if (report.saved_step && (!attempt.saved_step || *attempt.saved_step < *report.saved_step))
    draft.attempts.edit(attempt.id).saved_step = report.saved_step;
}

// What the attempt makes of the report, while nothing has gone wrong.
void advance(Draft& draft, const AttemptId& id, const NodeId& reporter) {
  const Attempt& attempt = *draft.attempts.find(id);
  if (attempt.state == AttemptState::reserved)
    draft.attempts.edit(id).state = AttemptState::launching;
  const auto nodes = draft.nodes_of(id);
  const auto stopped = std::ranges::find_if(nodes, stops_on_its_own);
  if (stopped != nodes.end())
    return judge_own_stop(draft, *draft.attempts.find(id), **stopped, *draft.nodes.find(reporter));
  if (!std::ranges::all_of(nodes, has_run)) return;
  if (draft.attempts.find(id)->state != AttemptState::running) mark_running(draft, id);
  if (std::ranges::all_of(nodes, [](const Node* node) { return all_ranks_ended(*node); })) {
    begin_draining(draft, id, Cause::ok,
                   good_end_of(rank_count(draft.runs.find(id.run)->spec), nodes));
  }
}

}  // namespace

Result<void> handle(Draft& draft, const NodeReport& report) {
  const AttemptId& id = report.node.attempt;
  const Attempt* attempt = draft.live_attempt(id.run);
  const Node* node = draft.nodes.find(report.node);
  if (draft.orphans.find({report.generation, report.node})) return note_orphan(draft, report);
  if (!node || !attempt || attempt->id != id || attempt->generation != report.generation) return {};
  if (node->state == NodeState::released || node->state == NodeState::lost) return {};
  TRY(check_report(report, *node, draft.runs.find(id.run)->spec));
  merge(draft, by_our_clock(draft, report), *attempt);
  judge_ranks(draft, id);
  if (draft.attempts.find(id)->state < AttemptState::draining) advance(draft, id, report.node);
  note_checkpoint(draft, report);
  return {};
}

}  // namespace lockstep
