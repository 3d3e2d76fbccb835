#include "platform/core/step/ending.h"

#include <algorithm>
#include <csignal>

#include "base/format.h"
#include "platform/core/step/placing.h"
#include "platform/core/step/suspicion.h"
#include "platform/core/step/verdict.h"
#include "platform/core/step/words.h"

namespace lockstep {
namespace {

constexpr Duration kBackOffFirst = std::chrono::seconds(2);
// An agent stops its ranks at the time-out by its own clock, maybe before ours says so.
constexpr Duration kTimeoutSlack = std::chrono::seconds(10);

// None before the first retry, then 2 s, 4 s, ... up to a minute.
Duration back_off(int failures) {
  if (failures <= 1) return Duration(0);
  return std::min(kBackOffLimit, kBackOffFirst * (1 << std::min(failures - 2, 10)));
}

// The run's state says that it runs until the last process is gone, so its reason says that it
// ends.
void set_cause(Draft& draft, const AttemptId& id, Cause cause, std::string reason) {
  draft.runs.edit(id.run).reason = (cause == Cause::ok ? "ending: " : "") + reason;
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

// Its newest checkpoint is further than those of all attempts before it.
bool made_progress(const Draft& draft, const Attempt& attempt) {
  if (!attempt.saved_step) return false;
  for (std::int64_t epoch = attempt.id.epoch - 1; epoch > 0; --epoch)
    if (const Attempt* before = draft.attempts.find({attempt.id.run, epoch});
        before && before->saved_step >= attempt.saved_step)
      return false;
  return true;
}

// A rank that its own program killed as it did in the attempt before, at the same step and with no
// newer checkpoint between: it will do so again. Attempts before a `resume` do not count, because
// the program may have been repaired.
std::optional<Kill> repeated_crash(const Draft& draft, const Run& run, const Attempt& attempt) {
  const Attempt* before = draft.attempts.find({run.id, attempt.id.epoch - 1});
  if (attempt.cause != Cause::rank_lost || !before || before->cause != Cause::rank_lost ||
      before->created < run.queued || made_progress(draft, attempt))
    return std::nullopt;
  const auto verdict =
      verdict_on(attempt, draft.nodes_of(attempt.id), run.spec.hang_after, run.spec.on_failure);
  const auto kill = verdict ? verdict->kill : std::nullopt;
  if (!kill || !has_crashed(draft.nodes_of(before->id), *kill)) return std::nullopt;
  return has_crashed(draft.nodes_of(attempt.id), *kill) ? kill : std::nullopt;
}

std::string words_of(const Kill& kill) {
  const auto place =
      kill.step < 0 ? std::string("before its first step") : format("at step {}", kill.step);
  return format("rank {} was killed by {} {} in two attempts: the program fails there each time",
                kill.rank, short_signal_name(kill.signal), place);
}

// It obeys `stop`, and had never started its ranks.
bool never_will_begin(const Node& node) {
  return node.state == NodeState::stopping && !all_ranks_began(node);
}

// A node's ranks get the same SIGTERM as its agent when the host shuts down, maybe before it.
bool is_shut_down(const std::vector<const Node*>& nodes, const Verdict& verdict) {
  if (!verdict.kill || verdict.kill->signal != SIGTERM) return false;
  return std::ranges::any_of(nodes, [&](const Node* node) {
    return was_asked_to_end(*node) &&
           std::ranges::find(node->ranks, verdict.kill->rank, &Rank::rank) != node->ranks.end();
  });
}

// All that failed did so because an agent had ended its peers.
void acquit_ranks(Draft& draft, const AttemptId& id) {
  const Attempt& attempt = *draft.attempts.find(id);
  const Run& run = *draft.runs.find(id.run);
  const auto nodes = draft.nodes_of(id);
  const auto end = first_end_by_agent(nodes);
  const auto time_up = [](const Node* node) { return found_time_up(*node); };
  for (const Node* node : nodes)
    if (is_verdict(attempt.cause) && was_asked_to_end(*node))
      return set_cause(draft, id, Cause::node_stopped, stopped_node(*node));
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

std::string used_up(const Attempt& attempt, int used, int allowed) {
  if (allowed == 0) return attempt.reason;
  const auto which = attempt.cause == Cause::user_exit ? "" : " without a newer checkpoint";
  return format("{}; {} of {} retries{} are used up", attempt.reason, used, allowed, which);
}

// Queues the run again, or ends it when what it may use up is used up.
void retry_or_fail(const Draft& draft, Run& run, const Attempt& attempt) {
  const Time now = draft.now();
  if (attempt.cause == Cause::superseded || attempt.cause == Cause::refused)
    return end_run(run, RunState::failed, attempt.reason, now);
  if (const auto kill = repeated_crash(draft, run, attempt))
    return end_run(run, RunState::failed, words_of(*kill), now);
  if (run.charged >= run.spec.timeout)
    return end_run(
        run, RunState::timed_out,
        format("{}; its time-out of {} is used up", attempt.reason, text(run.spec.timeout)), now);
  if (attempt.cause != Cause::user_exit && made_progress(draft, attempt)) run.losses = 0;
  const auto [used, allowed] = allowance_of(run, attempt.cause);
  if (used >= allowed) return end_run(run, RunState::failed, used_up(attempt, used, allowed), now);
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
  auto verdict = verdict_of(draft, id);
  if (verdict && is_shut_down(draft.nodes_of(id), *verdict)) verdict.reset();
  if (!verdict) return acquit_ranks(draft, id);
  const auto waits_since = verdict->unsettled_since;
  if (attempt.state < AttemptState::draining && waits_since && *waits_since <= draft.now() &&
      draft.now() - *waits_since < kSettleLimit)
    return;
  if (attempt.state < AttemptState::draining)
    begin_draining(draft, id, verdict->cause, verdict->reason);
  else if (is_verdict(attempt.cause) && attempt.reason != verdict->reason)
    set_cause(draft, id, verdict->cause, verdict->reason);
}

bool was_asked_to_end(const Node& node) { return node.stop_reason == StopReason::signal; }

std::string stopped_node(const Node& node) {
  return format("{} shuts down, or takes its devices back: {}", place_of(node), node.message);
}

bool found_time_up(const Node& node) { return node.stop_reason == StopReason::timeout; }

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

void lose_node(Draft& draft, const NodeId& id, Cause cause, std::string reason,
               Suspicion suspicion) {
  const Attempt attempt = *draft.attempts.find(id.attempt);
  Node& node = draft.nodes.edit(id);
  node.state = NodeState::lost;
  if (node.message.empty()) node.message = reason;
  if (attempt.state < AttemptState::draining) {
    begin_draining(draft, id.attempt, cause, std::move(reason));
    if (suspicion == Suspicion::of_host) suspect(draft, node.host, id.attempt.run);
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
