#include "platform/core/step/ending/attempt_end.h"

#include <algorithm>
#include <csignal>

#include "base/format.h"
#include "platform/core/model/command.h"
#include "platform/core/step/budget/charges.h"
#include "platform/core/step/ending/diagnosis.h"
#include "platform/core/step/ending/host_losses.h"
#include "platform/core/step/ending/reason_text.h"
#include "platform/core/step/starting/attempt_placement.h"

namespace lockstep::step {
namespace {

// An agent stops its ranks at the time limit by its own clock, which may be ahead of the daemon's.
constexpr Duration kTimeoutSlack = std::chrono::seconds(10);
// A program that ends itself sooner than this has not begun its work.
constexpr Duration kEarlyExit = std::chrono::seconds(60);

// None before the first retry, then 2 s, 4 s, ... up to a minute, by the default settings.
Duration retry_pause(const model::Settings& settings, int failures) {
  if (failures <= 1) return Duration(0);
  return std::min(settings.retry_pause_max,
                  settings.retry_pause_first * (1 << std::min(failures - 2, 10)));
}

// The run's state stays `running` until the last process is gone, so its reason shows that it is
// ending.
void set_cause(Draft& draft, const model::AttemptId& id, model::Cause cause, std::string reason) {
  draft.runs.edit(id.run).reason = (cause == model::Cause::ok ? "ending: " : "") + reason;
  model::Attempt& attempt = draft.attempts.edit(id);
  attempt.cause = cause;
  attempt.reason = std::move(reason);
}

bool time_is_up(const model::Run& run, Time since, Time until) {
  return run.time_used + (until - since) + kTimeoutSlack >= model::time_limit(run);
}

// True if some attempt of the run wrote a checkpoint. Checks the newest attempts first.
bool has_saved(const Draft& draft, const model::Run& run) {
  for (std::int64_t epoch = run.epoch; epoch > 0; --epoch)
    if (const model::Attempt* attempt = draft.attempts.find({run.id, epoch});
        attempt && attempt->last_checkpoint)
      return true;
  return false;
}

// True if its newest checkpoint is further than those of all earlier attempts.
bool made_progress(const Draft& draft, const model::Attempt& attempt) {
  if (!attempt.last_checkpoint_step) return false;
  for (std::int64_t epoch = attempt.id.epoch - 1; epoch > 0; --epoch)
    if (const model::Attempt* before = draft.attempts.find({attempt.id.run, epoch});
        before && before->last_checkpoint_step >= attempt.last_checkpoint_step)
      return false;
  return true;
}

// A rank that its own program killed in the same way as in the attempt before, at the same step and
// without a newer checkpoint in between: it will fail again. Attempts before a `resume` do not
// count, because the program may have been repaired.
std::optional<RankKill> repeated_crash(const Draft& draft, const model::Run& run,
                                       const model::Attempt& attempt) {
  const model::Attempt* before = draft.attempts.find({run.id, attempt.id.epoch - 1});
  if (attempt.cause != model::Cause::rank_lost || !before ||
      before->cause != model::Cause::rank_lost || before->created < run.queued ||
      made_progress(draft, attempt))
    return std::nullopt;
  const auto diagnosis = diagnose_attempt(attempt, draft.nodes_of(attempt.id), run.spec.hang_after,
                                          run.spec.on_failure);
  const auto kill = diagnosis ? diagnosis->kill : std::nullopt;
  if (!kill || !crashed_alike(draft.nodes_of(before->id), *kill)) return std::nullopt;
  return crashed_alike(draft.nodes_of(attempt.id), *kill) ? kill : std::nullopt;
}

// The first rank that exited with another code than 0 soon after the start of the attempt; null:
// none did.
const model::Rank* early_exit(const Draft& draft, const model::Attempt& attempt) {
  const model::Rank* first = nullptr;
  for (const model::Node* node : draft.nodes_of(attempt.id))
    for (const model::Rank& rank : node->ranks)
      if (rank.state == model::RankState::exited && rank.code != 0 && !rank.signalled_by_agent &&
          rank.ended && (!first || *rank.ended < *first->ended))
        first = &rank;
  const Time begun = attempt.started.value_or(attempt.created);
  return first && *first->ended - begun < kEarlyExit ? first : nullptr;
}

bool shares_host(const Draft& draft, const model::Attempt& one, const model::Attempt& other) {
  for (const model::Node* node : draft.nodes_of(one.id))
    for (const model::Node* before : draft.nodes_of(other.id))
      if (node->host == before->host) return true;
  return false;
}

// The program ended itself with the same code, soon after its start, in two attempts that had no
// host in common: so it will on others. Attempts before a `resume` do not count.
std::optional<std::string> repeated_exit(const Draft& draft, const model::Run& run,
                                         const model::Attempt& attempt) {
  const model::Attempt* before = draft.attempts.find({run.id, attempt.id.epoch - 1});
  if (attempt.cause != model::Cause::user_exit || !before ||
      before->cause != model::Cause::user_exit || before->created < run.queued)
    return std::nullopt;
  const model::Rank* exit = early_exit(draft, attempt);
  const model::Rank* exit_before = early_exit(draft, *before);
  if (!exit || !exit_before || exit->code != exit_before->code ||
      shares_host(draft, attempt, *before))
    return std::nullopt;
  return format(
      "{}; so did the attempt before, on other hosts, within {} of its start: another "
      "attempt would, too",
      attempt.reason, short_text(kEarlyExit));
}

std::string describe_repeated_crash(const RankKill& kill) {
  const auto location =
      kill.step < 0 ? std::string("before its first step") : format("at step {}", kill.step);
  return format("rank {} was killed by {} {} in two attempts: the program fails there each time",
                kill.rank, short_signal_name(kill.signal), location);
}

// The node obeys `stop` and never started its ranks.
bool never_will_begin(const model::Node& node) {
  return node.state == model::NodeState::stopping && !model::all_ranks_started(node);
}

// On shutdown a node's ranks get the same SIGTERM as its agent, possibly before it.
bool is_shut_down(const std::vector<const model::Node*>& nodes, const AttemptDiagnosis& diagnosis) {
  if (!diagnosis.kill || diagnosis.kill->signal != SIGTERM) return false;
  return std::ranges::any_of(nodes, [&](const model::Node* node) {
    return stopped_by_signal(*node) && std::ranges::find(node->ranks, diagnosis.kill->rank,
                                                         &model::Rank::rank) != node->ranks.end();
  });
}

// True if a node counted as started too late, and its ranks had ended before that: the report that
// showed them running was late.
bool is_blamed_by_late_report(const model::Attempt& attempt,
                              const std::vector<const model::Node*>& nodes) {
  return attempt.cause == model::Cause::launch_failed &&
         std::ranges::all_of(nodes, [&](const model::Node* node) {
           const auto last = model::last_rank_end(*node);
           return last && *last < *attempt.draining;
         });
}

// Replaces the diagnosis if all failed ranks failed because an agent had ended their peers.
void clear_blame(Draft& draft, const model::AttemptId& id) {
  const model::Attempt& attempt = *draft.attempts.find(id);
  const model::Run& run = *draft.runs.find(id.run);
  const auto nodes = draft.nodes_of(id);
  const auto end = first_end_by_agent(nodes);
  const auto time_up = [](const model::Node* node) { return stopped_by_timeout(*node); };
  for (const model::Node* node : nodes)
    if (is_from_diagnosis(attempt.cause) && stopped_by_signal(*node))
      return set_cause(draft, id, model::Cause::node_stopped, node_stop_reason(*node));
  const bool is_open = is_from_diagnosis(attempt.cause) || is_blamed_by_late_report(attempt, nodes);
  if (!is_open || !end || std::ranges::none_of(nodes, time_up)) return;
  if (all_ranks_ran_until(run, attempt, nodes, *end)) {
    AttemptCause cause = cause_of_agent_timeout(run, attempt, *end);
    return set_cause(draft, id, cause.cause, std::move(cause.reason));
  }
  for (const model::Node* node : nodes)
    if (never_will_begin(*node) || ranks_ended_late(*node, nodes))
      return set_cause(draft, id, model::Cause::launch_failed, not_started_reason(draft, *node));
}

// More memory than its run has asked for is a failure of the program, which happens again.
bool is_by_program(model::Cause cause) {
  return cause == model::Cause::user_exit || cause == model::Cause::oom;
}

// The retry budget: failures of the program count apart from losses.
struct RetryBudget {
  int used = 0;
  int allowed = 0;
};

RetryBudget retry_budget_of(const model::Run& run, model::Cause cause) {
  if (model::is_preemption(cause)) return {};
  if (is_by_program(cause)) return {run.user_exits, run.spec.retries};
  return {run.losses, run.spec.rank_loss_retries};
}

// A preempted run continues: on the devices that are reserved for it, or at its place in the queue.
void requeue_preempted(Draft& draft, model::Run& run, const model::Attempt& attempt) {
  if (run.time_used >= model::time_limit(run))
    return end_run(run, model::RunState::timed_out, timeout_reason(run), draft.now());
  run.state = model::RunState::queued;
  run.reason =
      format("{}; {}", attempt.reason, describe_next_attempt(draft, run, attempt.cause, {}));
  if (attempt.cause == model::Cause::budget)
    return wait_for_budget(draft, run.id, amount_to_go_on(draft, attempt));
  if (!can_start_on(draft, attempt.move_destination)) return;
  if (const auto missing = missing_budget(draft, run, attempt.move_destination))
    wait_for_budget(draft, run.id, *missing);
  else
    start_attempt(draft, {run.id, attempt.move_destination});
}

std::string used_up(const model::Attempt& attempt, int used, int allowed) {
  if (allowed == 0) return attempt.reason;
  const auto which = is_by_program(attempt.cause) ? "" : " without a newer checkpoint";
  return format("{}; {} of {} retries{} are used up", attempt.reason, used, allowed, which);
}

// The attempts of its run before it that hosts have stopped within a day.
int recent_node_stops(const Draft& draft, const model::Attempt& attempt) {
  int stops = 0;
  for (std::int64_t epoch = attempt.id.epoch - 1; epoch > 0; --epoch) {
    const model::Attempt* before = draft.attempts.find({attempt.id.run, epoch});
    if (!before || !before->ended || draft.now() - *before->ended >= std::chrono::hours(24)) break;
    stops += before->cause == model::Cause::node_stopped ? 1 : 0;
  }
  return stops;
}

// A host that stops every attempt must not keep its run from ending.
void bound_node_stops(const Draft& draft, model::Attempt& attempt) {
  const int allowed = draft.settings().node_stops_per_day;
  if (attempt.cause != model::Cause::node_stopped || recent_node_stops(draft, attempt) < allowed)
    return;
  attempt.cause = model::Cause::node_lost;
  attempt.reason += format("; this counts as a loss, after {} such stops within a day", allowed);
}

// A host lacks the environment that the run names: so it will in the next attempt.
bool lacks_environment(const Draft& draft, const model::Attempt& attempt) {
  return attempt.cause == model::Cause::launch_failed &&
         std::ranges::any_of(draft.nodes_of(attempt.id), [](const model::Node* node) {
           return node->stop_reason == model::StopReason::no_environment;
         });
}

bool prepares_environment(const model::Node& node) {
  return node.state == model::NodeState::allocated && !node.agents.empty();
}

// Queues the run again, or ends it when a budget is used up.
void retry_or_fail(const Draft& draft, model::Run& run, const model::Attempt& attempt) {
  const Time now = draft.now();
  if (lacks_environment(draft, attempt))
    return end_run(run, model::RunState::failed, attempt.reason, now);
  if (attempt.cause == model::Cause::superseded || attempt.cause == model::Cause::refused)
    return end_run(run, model::RunState::failed, attempt.reason, now);
  if (const auto kill = repeated_crash(draft, run, attempt))
    return end_run(run, model::RunState::failed, describe_repeated_crash(*kill), now);
  if (auto repeated = repeated_exit(draft, run, attempt))
    return end_run(run, model::RunState::failed, *std::move(repeated), now);
  if (run.time_used >= model::time_limit(run))
    return end_run(
        run, model::RunState::timed_out,
        format("{}; its time-out of {} is used up", attempt.reason, text(model::time_limit(run))),
        now);
  if (!is_by_program(attempt.cause) && made_progress(draft, attempt)) run.losses = 0;
  const auto [used, allowed] = retry_budget_of(run, attempt.cause);
  if (used >= allowed)
    return end_run(run, model::RunState::failed, used_up(attempt, used, allowed), now);
  ++(is_by_program(attempt.cause) ? run.user_exits : run.losses);
  const Duration pause = retry_pause(draft.settings(), used + 1);
  run.state = model::RunState::queued;
  if (pause > Duration(0)) run.not_before = now + pause;
  run.reason =
      format("{}; {}", attempt.reason, describe_next_attempt(draft, run, attempt.cause, pause));
}

void finish_attempt(Draft& draft, model::Attempt& attempt,
                    const std::vector<const model::Node*>& nodes) {
  model::Run& run = draft.runs.edit(attempt.id.run);
  const Time now = draft.now();
  if (model::is_preemption(attempt.cause) && model::all_ranks_succeeded(nodes)) {
    attempt.cause = model::Cause::ok;  // its ranks finished before the preemption took effect
    attempt.reason = "its ranks exited with code 0";
  }
  bound_node_stops(draft, attempt);
  close_charge(draft, attempt);
  run.time_used += model::running_time(attempt, nodes, now);
  if (attempt.cause == model::Cause::ok)
    return end_run(run, model::RunState::succeeded, attempt.reason, now);
  if (run.stop_requested || attempt.cause == model::Cause::cancelled ||
      attempt.cause == model::Cause::idle)
    return end_run(run, model::RunState::cancelled, attempt.reason, now);
  if (attempt.cause == model::Cause::timeout)
    return end_run(run, model::RunState::timed_out, attempt.reason, now);
  if (model::is_preemption(attempt.cause)) return requeue_preempted(draft, run, attempt);
  retry_or_fail(draft, run, attempt);
}

}  // namespace

void begin_draining(Draft& draft, const model::AttemptId& id, model::Cause cause,
                    std::string reason) {
  if (draft.attempts.find(id)->state >= model::AttemptState::draining) return;
  set_cause(draft, id, cause, std::move(reason));
  model::Attempt& attempt = draft.attempts.edit(id);
  attempt.state = model::AttemptState::draining;
  attempt.draining = draft.now();
}

std::optional<AttemptDiagnosis> attempt_diagnosis_of(const Draft& draft,
                                                     const model::AttemptId& id) {
  const auto& spec = draft.runs.find(id.run)->spec;
  return diagnose_attempt(*draft.attempts.find(id), draft.nodes_of(id), spec.hang_after,
                          spec.on_failure);
}

void update_cause(Draft& draft, const model::AttemptId& id) {
  const model::Attempt& attempt = *draft.attempts.find(id);
  auto diagnosis = attempt_diagnosis_of(draft, id);
  if (diagnosis && is_shut_down(draft.nodes_of(id), *diagnosis)) diagnosis.reset();
  if (!diagnosis) return clear_blame(draft, id);
  const auto waits_since = diagnosis->provisional_since;
  if (attempt.state < model::AttemptState::draining && waits_since && *waits_since <= draft.now() &&
      draft.now() - *waits_since < kFaultReportLimit)
    return;
  if (attempt.state < model::AttemptState::draining)
    begin_draining(draft, id, diagnosis->cause, diagnosis->reason);
  else if (is_from_diagnosis(attempt.cause) && attempt.reason != diagnosis->reason)
    set_cause(draft, id, diagnosis->cause, diagnosis->reason);
}

bool stopped_by_signal(const model::Node& node) {
  return node.stop_reason == model::StopReason::signal;
}

std::string node_stop_reason(const model::Node& node) {
  return format("{} shuts down, or takes its devices back: {}", describe_location(node),
                node.message);
}

bool stopped_by_timeout(const model::Node& node) {
  return node.stop_reason == model::StopReason::timeout;
}

std::string timeout_reason(const model::Run& run) {
  return format("reached its time-out of {}", text(model::time_limit(run)));
}

AttemptCause cause_of_agent_timeout(const model::Run& run, const model::Attempt& attempt,
                                    Time until) {
  const Time since = attempt.started.value_or(attempt.created);
  if (run.extended > Duration(0) && !time_is_up(run, since, until))
    return {model::Cause::node_lost,
            "its agents ended its ranks at the time limit of before, because they had not heard "
            "that it was extended"};
  return {model::Cause::timeout, timeout_reason(run)};
}

bool all_ranks_ran_until(const model::Run& run, const model::Attempt& attempt,
                         const std::vector<const model::Node*>& nodes, Time until) {
  const auto steps = [](const model::Node* node) {
    return std::ranges::any_of(node->ranks, [](const model::Rank& rank) { return rank.step >= 0; });
  };
  const auto end = first_end_by_agent(nodes);
  const auto ended = [&](const model::Node* node) {
    return end && model::last_rank_end(*node) && !ranks_ended_late(*node, nodes);
  };
  return nodes.size() == 1 || (attempt.started && time_is_up(run, *attempt.started, until)) ||
         std::ranges::any_of(nodes, steps) || std::ranges::all_of(nodes, ended);
}

bool ranks_ended_late(const model::Node& node, const std::vector<const model::Node*>& nodes) {
  const auto first = first_end_by_agent(nodes);
  const auto last = model::last_rank_end(node);
  return first && last && *last > *first + kEndSkewMax;
}

std::string not_started_reason(const Draft& draft, const model::Node& node) {
  const auto environment = model::software_environment(draft.runs.find(node.id.attempt.run)->spec);
  const auto what = model::all_ranks_started(node)            ? std::string("started them later")
                    : node.state >= model::NodeState::running ? std::string("started none")
                    : environment && prepares_environment(node)
                        ? "still prepares " + text(*environment)
                        : format("is still {}", text(node.state));
  return format("its ranks did not start within {}: {} {}",
                short_text(draft.settings().start_limit), describe_location(node), what);
}

// A node that was lost before draining began can be the reason why ranks of other nodes failed,
// except for a crashed or stopped rank.
bool explains_diagnosis(const Draft& draft, const model::Attempt& attempt,
                        const model::Node& node) {
  if (!is_from_diagnosis(attempt.cause) || node.last_heartbeat >= *attempt.draining) return false;
  const auto diagnosis = attempt_diagnosis_of(draft, attempt.id);
  return !diagnosis || !diagnosis->is_independent;
}

void mark_node_lost(Draft& draft, const model::NodeId& id, model::Cause cause, std::string reason,
                    HostBlame blame) {
  const model::Attempt attempt = *draft.attempts.find(id.attempt);
  model::Node& node = draft.nodes.edit(id);
  node.state = model::NodeState::lost;
  node.unreachable_since.reset();
  if (node.message.empty()) node.message = reason;
  if (attempt.state < model::AttemptState::draining) {
    begin_draining(draft, id.attempt, cause, std::move(reason));
    if (blame == HostBlame::counted && !node.host.empty())
      record_host_loss(draft, node.host, id.attempt.run);
  } else if ((blame == HostBlame::counted || cause == model::Cause::node_stopped ||
              cause == model::Cause::oom) &&
             explains_diagnosis(draft, attempt, node))
    set_cause(draft, id.attempt, cause, std::move(reason));
}

void kill_node(Draft& draft, const model::NodeId& id) {
  model::Node& node = draft.nodes.edit(id);
  if (node.kill_requested_at &&
      draft.now() - *node.kill_requested_at < draft.settings().kill_interval)
    return;
  node.kill_requested_at = draft.now();
  draft.add_effect(model::KillNode{id});
}

// Its agent and its ranks no longer count.
void end_node(model::Node& node, model::NodeState state) {
  node.state = state;
  node.unreachable_since.reset();
  node.pending_reason.clear();
  for (model::Rank& rank : node.ranks)
    if (rank.state == model::RankState::running) rank.state = model::RankState::lost;
}

void end_attempt_without_nodes(Draft& draft, const model::AttemptId& id) {
  const auto nodes = draft.nodes_of(id);
  const bool all = std::ranges::all_of(nodes, [&](const model::Node* node) {
    return node->state == model::NodeState::released || draft.given_up.find(node->id);
  });
  if (!all) return;
  model::Attempt& attempt = draft.attempts.edit(id);
  attempt.state = model::AttemptState::ended;
  attempt.ended = draft.now();
  finish_attempt(draft, attempt, nodes);
}

void release_node(Draft& draft, const model::NodeId& id) {
  end_node(draft.nodes.edit(id), model::NodeState::released);
  end_attempt_without_nodes(draft, id.attempt);
}

std::optional<Duration> time_until_gone(const Draft& draft, const model::AttemptId& id) {
  const auto& lease = draft.attempts.find(id)->lease;
  if (!lease) return std::nullopt;
  const model::RunSpec& spec = draft.runs.find(id.run)->spec;
  return *lease + model::grace_period_of(spec, draft.settings()) + kLeaseMargin;
}

// An attempt that is not placed holds no devices for the scheduler.
model::HostDevices held_devices(const model::Attempt& attempt, const model::Node& node) {
  return {node.host, attempt.is_placed ? node.devices : std::vector<int>()};
}

// The agent of a node that never called may have started until now.
void give_up_node(Draft& draft, const model::NodeId& id) {
  model::Node& node = draft.nodes.edit(id);
  const model::Attempt& attempt = *draft.attempts.find(id.attempt);
  draft.given_up.add({.id = id,
                      .generation = attempt.generation,
                      .engine = attempt.engine,
                      .devices = held_devices(attempt, node),
                      .since = draft.now(),
                      .last_call = node.agents.empty() ? draft.now() : node.last_heartbeat,
                      .gone_after = time_until_gone(draft, id.attempt),
                      .kill_requested_at = node.kill_requested_at});
  end_node(node, model::NodeState::lost);
  end_attempt_without_nodes(draft, id.attempt);
}

std::string describe_next_attempt(const Draft& draft, const model::Run& run, model::Cause cause,
                                  Duration pause) {
  const bool pauses = pause > Duration(0);
  const bool saved = has_saved(draft, run);
  auto result = format("attempt {}", run.epoch + 1);
  if (pauses || !saved) result += " follows";
  if (pauses) result += " after " + short_text(pause);
  if (pauses && saved) result += " and";
  if (saved) result += " continues from the last checkpoint";
  const auto [used, allowed] = retry_budget_of(run, cause);
  if (used > 0) result += format(" (retry {} of {})", used, allowed);
  return result;
}

void end_run(model::Run& run, model::RunState state, std::string reason, Time now) {
  run.state = state;
  run.reason = std::move(reason);
  run.ended = now;
  run.not_before.reset();
  run.held.reset();
  run.awaits_dependencies = false;
  run.awaits_budget.reset();
}

}  // namespace lockstep::step
