#include "platform/core/step/ending.h"

#include <algorithm>

#include "base/format.h"
#include "platform/core/step/placing.h"
#include "platform/core/step/suspicion.h"
#include "platform/core/step/verdict.h"
#include "platform/core/step/words.h"

namespace lockstep {
namespace {

constexpr Duration kBackOffFirst = std::chrono::seconds(2);
constexpr Duration kBackOffLimit = std::chrono::seconds(60);
// An agent stops its ranks at the time-out by its own clock, maybe before ours says so.
constexpr Duration kTimeoutSlack = std::chrono::seconds(10);

// None before the first retry, then 2 s, 4 s, ... up to a minute.
Duration back_off(int failures) {
  if (failures <= 1) return Duration(0);
  return std::min(kBackOffLimit, kBackOffFirst * (1 << std::min(failures - 2, 10)));
}

void set_cause(Draft& draft, const AttemptId& id, Cause cause, std::string reason) {
  draft.runs.edit(id.run).reason = reason;
  Attempt& attempt = draft.attempts.edit(id);
  attempt.cause = cause;
  attempt.reason = std::move(reason);
}

bool time_is_up(const Run& run, Time since, Time until) {
  return run.charged + (until - since) + kTimeoutSlack >= run.spec.timeout;
}

// Some attempt of it did. The newest are asked first.
bool has_saved(const Draft& draft, const Run& run) {
  for (std::int64_t epoch = run.epoch; epoch > 0; --epoch)
    if (const Attempt* attempt = draft.attempts.find({run.id, epoch}); attempt && attempt->saved)
      return true;
  return false;
}

// It obeys `stop`, and had never started its ranks.
bool never_will_begin(const Node& node) {
  return node.state == NodeState::stopping && !all_ranks_began(node);
}

// All that failed did so because an agent had ended its peers.
void acquit_ranks(Draft& draft, const AttemptId& id) {
  const Attempt& attempt = *draft.attempts.find(id);
  const Run& run = *draft.runs.find(id.run);
  const auto nodes = draft.nodes_of(id);
  const auto end = first_end_by_agent(nodes);
  const auto time_up = [](const Node* node) { return found_time_up(*node); };
  if (!is_verdict(attempt.cause) || !end || std::ranges::none_of(nodes, time_up)) return;
  if (gang_ran(run, attempt, nodes, *end))
    return set_cause(draft, id, Cause::timeout, time_out_of(run));
  for (const Node* node : nodes)
    if (never_will_begin(*node) || ended_apart(*node, nodes))
      return set_cause(draft, id, Cause::launch_failed, did_not_start(*node));
}

// What failed attempts use up: the program's own failures apart from what befalls it.
struct Allowance {
  int used = 0;
  int allowed = 0;
};

Allowance allowance_of(const Run& run, Cause cause) {
  if (makes_room(cause)) return {};
  if (cause == Cause::user_exit) return {run.user_exits, run.spec.retries};
  return {run.losses, run.spec.rank_loss_retries};
}

// It had to leave, and goes on: where devices are kept for it, or as it stands in the queue.
void go_on(Draft& draft, Run& run, const Attempt& attempt) {
  if (run.charged >= run.spec.timeout)
    return end_run(run, RunState::timed_out, time_out_of(run), draft.now());
  run.state = RunState::queued;
  run.reason = format("{}; {}", attempt.reason, what_follows(draft, run, attempt.cause, {}));
  if (takes_runs(draft, attempt.moves_to)) start_attempt(draft, {run.id, attempt.moves_to});
}

// Queues the run again, or ends it when what it may use up is used up.
void retry_or_fail(const Draft& draft, Run& run, const Attempt& attempt) {
  const Time now = draft.now();
  const auto [used, allowed] = allowance_of(run, attempt.cause);
  if (run.charged >= run.spec.timeout)
    return end_run(
        run, RunState::timed_out,
        format("{}; its time-out of {} is used up", attempt.reason, text(run.spec.timeout)), now);
  if (used >= allowed)
    return end_run(run, RunState::failed,
                   allowed == 0
                       ? attempt.reason
                       : format("{}; {} of {} retries are used up", attempt.reason, used, allowed),
                   now);
  ++(attempt.cause == Cause::user_exit ? run.user_exits : run.losses);
  const Duration pause = back_off(used + 1);
  run.state = RunState::queued;
  if (pause > Duration(0)) run.not_before = now + pause;
  run.reason = format("{}; {}", attempt.reason, what_follows(draft, run, attempt.cause, pause));
}

void settle(Draft& draft, Attempt& attempt, const std::vector<const Node*>& nodes) {
  Run& run = draft.runs.edit(attempt.id.run);
  const Time now = draft.now();
  if (makes_room(attempt.cause) && all_ended_well(nodes)) {
    attempt.cause = Cause::ok;  // it was quicker
    attempt.reason = "its ranks exited with code 0";
  }
  run.charged += running_time(attempt, nodes, now);
  if (attempt.cause == Cause::ok) return end_run(run, RunState::succeeded, attempt.reason, now);
  if (run.stop_requested || attempt.cause == Cause::cancelled)
    return end_run(run, RunState::cancelled, attempt.reason, now);
  if (attempt.cause == Cause::timeout)
    return end_run(run, RunState::timed_out, attempt.reason, now);
  if (makes_room(attempt.cause)) return go_on(draft, run, attempt);
  retry_or_fail(draft, run, attempt);
}

}  // namespace

void begin_draining(Draft& draft, const AttemptId& id, Cause cause, std::string reason) {
  if (draft.attempts.find(id)->state >= AttemptState::draining) return;
  set_cause(draft, id, cause, std::move(reason));
  Attempt& attempt = draft.attempts.edit(id);
  attempt.state = AttemptState::draining;
  attempt.draining = draft.now();
}

std::optional<Verdict> verdict_of(const Draft& draft, const AttemptId& id) {
  const auto& spec = draft.runs.find(id.run)->spec;
  return verdict_on(*draft.attempts.find(id), draft.nodes_of(id), spec.hang_after, spec.on_failure);
}

void judge_ranks(Draft& draft, const AttemptId& id) {
  const Attempt& attempt = *draft.attempts.find(id);
  const auto verdict = verdict_of(draft, id);
  if (!verdict) return acquit_ranks(draft, id);
  if (attempt.state < AttemptState::draining)
    begin_draining(draft, id, verdict->cause, verdict->reason);
  else if (is_verdict(attempt.cause) && attempt.reason != verdict->reason)
    set_cause(draft, id, verdict->cause, verdict->reason);
}

bool found_time_up(const Node& node) { return node.message.starts_with(kTimeIsUp); }

std::string time_out_of(const Run& run) {
  return format("reached its time-out of {}", text(run.spec.timeout));
}

bool gang_ran(const Run& run, const Attempt& attempt, const std::vector<const Node*>& nodes,
              Time until) {
  const auto steps = [](const Node* node) {
    return std::ranges::any_of(node->ranks, [](const Rank& rank) { return rank.step >= 0; });
  };
  const auto end = first_end_by_agent(nodes);
  const auto ended = [&](const Node* node) {
    return end && last_end(*node) && !ended_apart(*node, nodes);
  };
  return nodes.size() == 1 || (attempt.started && time_is_up(run, *attempt.started, until)) ||
         std::ranges::any_of(nodes, steps) || std::ranges::all_of(nodes, ended);
}

bool ended_apart(const Node& node, const std::vector<const Node*>& nodes) {
  const auto first = first_end_by_agent(nodes);
  const auto last = last_end(node);
  return first && last && *last > *first + kEndTogether;
}

std::string did_not_start(const Node& node) {
  const auto what = all_ranks_began(node)             ? std::string("started them later")
                    : node.state < NodeState::running ? format("is still {}", text(node.state))
                                                      : std::string("started none");
  return format("its ranks did not start within {}: {} {}", short_text(kReadyLimit), place_of(node),
                what);
}

// A node that was lost before the attempt's end began may be why ranks of others failed; but for
// one that crashed, or was stopped.
bool explains_verdict(const Draft& draft, const Attempt& attempt, const Node& node) {
  if (!is_verdict(attempt.cause) || node.last_heard >= *attempt.draining) return false;
  const auto verdict = verdict_of(draft, attempt.id);
  return !verdict || !verdict->by_itself;
}

void lose_node(Draft& draft, const NodeId& id, Cause cause, std::string reason) {
  const Attempt attempt = *draft.attempts.find(id.attempt);
  Node& node = draft.nodes.edit(id);
  node.state = NodeState::lost;
  if (node.message.empty()) node.message = reason;
  if (attempt.state < AttemptState::draining) {
    begin_draining(draft, id.attempt, cause, std::move(reason));
    suspect(draft, node.host, id.attempt.run);
  } else if (explains_verdict(draft, attempt, node))
    set_cause(draft, id.attempt, cause, std::move(reason));
}

void kill_node(Draft& draft, const NodeId& id) {
  Node& node = draft.nodes.edit(id);
  if (node.killed && draft.now() - *node.killed < kKillInterval) return;
  node.killed = draft.now();
  draft.act(KillNode{id});
}

void release_node(Draft& draft, const NodeId& id) {
  Node& released = draft.nodes.edit(id);
  released.state = NodeState::released;
  for (Rank& rank : released.ranks)
    if (rank.state == RankState::running) rank.state = RankState::lost;
  const auto nodes = draft.nodes_of(id.attempt);
  const bool all = std::ranges::all_of(
      nodes, [](const Node* node) { return node->state == NodeState::released; });
  if (!all) return;
  Attempt& attempt = draft.attempts.edit(id.attempt);
  attempt.state = AttemptState::ended;
  attempt.ended = draft.now();
  settle(draft, attempt, nodes);
}

std::string what_follows(const Draft& draft, const Run& run, Cause cause, Duration pause) {
  const bool pauses = pause > Duration(0);
  const bool saved = has_saved(draft, run);
  auto words = format("attempt {}", run.epoch + 1);
  if (pauses || !saved) words += " follows";
  if (pauses) words += " after " + short_text(pause);
  if (pauses && saved) words += " and";
  if (saved) words += " goes on from the last checkpoint";
  const auto [used, allowed] = allowance_of(run, cause);
  if (used > 0) words += format(" (retry {} of {})", used, allowed);
  return words;
}

void end_run(Run& run, RunState state, std::string reason, Time now) {
  run.state = state;
  run.reason = std::move(reason);
  run.ended = now;
  run.not_before.reset();
  run.held.reset();
  run.awaits_others = false;
}

}  // namespace lockstep
