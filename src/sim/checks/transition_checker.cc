#include "sim/checks/transition_checker.h"

#include <algorithm>
#include <csignal>
#include <set>
#include <tuple>

#include "sim/checks/deadline_checker.h"

namespace lockstep::sim {
namespace {

using std::chrono::seconds;

// From docs/design/attempts.md: none before the first retry, then 2 s, 4 s, up to a minute.
Duration pause_before(int retry) {
  if (retry <= 1) return Duration(0);
  return std::min<Duration>(seconds(60), seconds(1 << std::min(retry - 1, 10)));
}

bool cause_may_change(model::Cause cause, model::Cause to) {
  if (model::is_preemption(cause)) return to == model::Cause::ok;
  if (cause == model::Cause::launch_failed) return to == model::Cause::timeout;
  return cause == model::Cause::user_exit || cause == model::Cause::rank_lost ||
         cause == model::Cause::hung;
}

bool is_by_program(model::Cause cause) {
  return cause == model::Cause::user_exit || cause == model::Cause::oom;
}

template <class CommitView, class Id>
auto row(const CommitView& rows, const Id& id) -> decltype(&rows.begin()->second) {
  const auto found = rows.find(id);
  return found == rows.end() ? nullptr : &found->second;
}

// The attempt of the run that ends in this commit; null if none does.
template <class Attempts>
const model::Attempt* ended_in(const Attempts& attempts, const model::Run& before) {
  const auto found = attempts.find(model::AttemptId{before.id, before.epoch});
  if (found == attempts.end()) return nullptr;
  return found->second->state == model::AttemptState::ended ? found->second : nullptr;
}

}  // namespace

void TransitionChecker::check_commit(const Commit& commit) {
  for (const auto& [id, node] : commit.nodes) check_node(*node);
  for (const auto& [id, attempt] : commit.attempts) check_attempt(commit, *attempt);
  for (const auto& [id, run] : commit.runs) check_run(commit, *run);
  for (const auto& [id, host] : commit.hosts) check_host(*host);
  check_queue_order(commit);
  check_versions(commit);
}

// The clock was set, or is read for the first time: only moments may change, and the durations
// between them stay.
void TransitionChecker::check_clock_change(const Commit& commit) {
  const Duration by = durable_.clock ? commit.clock->zero - durable_.clock->zero : Duration(0);
  for (const auto& [id, after] : commit.runs) {
    model::Run expected = durable_.runs.at(id);
    expected.version = after->version;
    expected.queued += by;
    if (expected.started) *expected.started += by;
    if (expected.not_before && expected.not_before != expected.spec.not_before)
      *expected.not_before += by;
    if (*after != expected) context_.report_violation(text(id) + " changes as the clock is set");
  }
  for (const auto& [id, after] : commit.attempts) {
    model::Attempt expected = durable_.attempts.at(id);
    expected.created += by;
    for (auto* moment : {&expected.admitted, &expected.started, &expected.draining, &expected.ended,
                         &expected.last_checkpoint})
      if (*moment) **moment += by;
    if (expected.charge) {
      expected.charge->from += by;
      expected.charge->until += by;
    }
    if (*after != expected) context_.report_violation(text(id) + " changes as the clock is set");
  }
  for (const auto& [id, after] : commit.nodes) {
    const model::Node& before = durable_.nodes.at(id);
    if (after->state != before.state || after->last_heartbeat != before.last_heartbeat + by)
      context_.report_violation(text(id) + " changes as the clock is set");
  }
}

// --- Nodes and ranks ---

void TransitionChecker::check_node(const model::Node& after) {
  const model::Node* before = row(durable_.nodes, after.id);
  if (!before) return;
  const bool is_named = before->host.empty();  // by its engine
  if ((before->host != after.host && !is_named) || before->devices != after.devices)
    context_.report_violation(text(after.id) + " is moved to other devices");
  if (before->kill_requested_at && after.kill_requested_at != before->kill_requested_at &&
      *after.kill_requested_at - *before->kill_requested_at < kKillInterval)
    context_.report_violation(text(after.id) + " is killed again at once");
  const bool ends =
      before->state == model::NodeState::lost && after.state == model::NodeState::released;
  if (before->state == model::NodeState::released || (after.state < before->state && !ends))
    context_.report_violation(
        format("{} was {} and is {}", text(after.id), text(before->state), text(after.state)));
  check_ranks(*before, after);
}

void TransitionChecker::check_ranks(const model::Node& before, const model::Node& after) {
  for (const model::Rank& was : before.ranks) {
    const auto is = std::ranges::find(after.ranks, was.rank, &model::Rank::rank);
    if (is == after.ranks.end())
      context_.report_violation(format("rank {} of {} is forgotten", was.rank, text(after.id)));
    else if (was.state != model::RankState::running && *is != was)
      context_.report_violation(
          format("rank {} of {} had ended and changes", was.rank, text(after.id)));
  }
}

// --- Attempts ---

void TransitionChecker::check_attempt(const Commit& commit, const model::Attempt& after) {
  if (const model::Attempt* before = row(durable_.attempts, after.id))
    check_moves(*before, after);
  else
    check_new_attempt(commit, after);
}

void TransitionChecker::check_moves(const model::Attempt& before, const model::Attempt& after) {
  if (before.state == model::AttemptState::ended || after.state < before.state)
    context_.report_violation(
        format("{} was {} and is {}", text(after.id), text(before.state), text(after.state)));
  check_moments(before, after);
  if (before.cause != model::Cause::none && before.cause != after.cause &&
      !cause_may_change(before.cause, after.cause))
    context_.report_violation(format("{} ended with cause {}, and now it is {}", text(after.id),
                                     text(before.cause), text(after.cause)));
}

// Recorded times are set when the event happens, and do not change.
void TransitionChecker::check_moments(const model::Attempt& before, const model::Attempt& after) {
  if ((before.started && before.started != after.started) ||
      (before.draining && before.draining != after.draining) || before.created != after.created)
    context_.report_violation(text(after.id) + " changes when it began");
  const Time now = context_.clock.now();
  if ((after.started && !before.started && after.started != now) ||
      (after.draining && !before.draining && after.draining != now))
    context_.report_violation(text(after.id) +
                              " is said to have begun at another time than it did");
}

// An adopted attempt continues: it began long ago.
void TransitionChecker::check_new_attempt(const Commit& commit, const model::Attempt& attempt) {
  const auto run = commit.runs.find(attempt.id.run);
  if (run == commit.runs.end() || run->second->epoch != attempt.id.epoch)
    return context_.report_violation(text(attempt.id) + " begins without its run");
  if (adopts(durable_, commit, attempt.id.run)) return;
  if (run->second->stop_requested)
    context_.report_violation(text(attempt.id) + " begins though its run is to stop");
  check_pause(commit, *run->second, attempt);
  check_preconditions(commit, *run->second, attempt);
}

// The pause between attempts of one run, unless a user resumed the run between them.
void TransitionChecker::check_pause(const Commit& commit, const model::Run& run,
                                    const model::Attempt& attempt) {
  const model::AttemptId id{run.id, attempt.id.epoch - 1};
  const auto ends = commit.attempts.find(id);
  const model::Attempt* before =
      ends == commit.attempts.end() ? row(durable_.attempts, id) : ends->second;
  if (!before || !before->ended || run.queued >= *before->ended) return;
  if (model::is_preemption(before->cause)) return;
  const int retry = before->cause == model::Cause::user_exit ? run.user_exits : run.losses;
  if (pause_before(retry) > Duration(0) && attempt.created - *before->ended < pause_before(retry))
    context_.report_violation(format("{} follows after {}, retry {} is to wait {}",
                                     text(attempt.id), text(attempt.created - *before->ended),
                                     retry, text(pause_before(retry))));
}

// The conditions besides devices that the run waits for.
void TransitionChecker::check_preconditions(const Commit& commit, const model::Run& run,
                                            const model::Attempt& attempt) {
  if (run.held) context_.report_violation(text(attempt.id) + " begins though its run is held");
  // A moment that has passed stays so when the clock is set back.
  if (run.spec.not_before && attempt.created < *run.spec.not_before &&
      !context_.clock.was_set_back())
    context_.report_violation(
        format("{} begins before {}", text(attempt.id), text(*run.spec.not_before)));
  // A run of another store started there, after its predecessor had succeeded.
  if (run.generation != durable_.store.generation) return;
  if (const model::Run* before = unfinished_predecessor(CommitView(durable_, commit), run))
    context_.report_violation(format("{} begins, and {}, after which it was to start, is {}",
                                     text(attempt.id), text(before->id), text(before->state)));
}

// A run that starts was ahead of the others, or delays none of them. A run in its pause is skipped.
void TransitionChecker::check_queue_order(const Commit& commit) {
  if (commit.attempts.empty() && commit.hosts.empty() && commit.limits.empty()) return;
  const QueueSnapshot after = queue_snapshot_of(durable_, commit);
  const SchedulingOracle oracle(after);
  if (auto wrong = oracle.check_starts(after)) context_.report_violation(std::move(*wrong));
  if (auto late = oracle.check_head_not_delayed(queue_snapshot_of(durable_, {}), after,
                                                context_.clock.now()))
    context_.report_violation(std::move(*late));
}

// --- Runs ---

void TransitionChecker::check_run(const Commit& commit, const model::Run& after) {
  if (const model::Run* before = row(durable_.runs, after.id))
    check_known_run(commit, *before, after);
}

void TransitionChecker::check_known_run(const Commit& commit, const model::Run& before,
                                        const model::Run& after) {
  if (before.spec != after.spec || before.submitted != after.submitted)
    context_.report_violation(text(after.id) + " is not what was submitted any more");
  if (after.version != before.version + 1)
    context_.report_violation(
        format("{} goes from version {} to {}", text(after.id), before.version, after.version));
  if (adopts(durable_, commit, after.id)) return;
  if (model::is_final(before.state)) return check_resumed(after);
  if (after.queued != before.queued || after.fair_share_used != before.fair_share_used)
    context_.report_violation(text(after.id) + " loses its turn");
  if (before.stop_requested && !after.stop_requested)
    context_.report_violation(text(after.id) + " forgets that it is to stop");
  const model::Attempt* ended = ended_in(commit.attempts, before);
  check_charge(before, after, ended);
  check_retries(before, after, ended);
  check_audit(before, after);
  if (model::is_final(after.state)) check_end(commit, after, ended);
}

// Each change of a run by a user or operator is recorded with its author.
void TransitionChecker::check_audit(const model::Run& before, const model::Run& after) {
  const bool changed = after.priority != before.priority ||
                       (after.held != before.held && !model::is_final(after.state));
  if (changed && after.audit == before.audit)
    context_.report_violation(text(after.id) +
                              " is held, released or brought forward, and nobody did it");
}

// The same for changes of a host.
void TransitionChecker::check_host(const model::HostRow& after) {
  const model::HostRow* before = row(durable_.hosts, after.id);
  const model::HostState state = before ? before->state : model::HostState::open;
  if (after.state != state && (before ? before->audit == after.audit : after.audit.empty()))
    context_.report_violation(
        format("{} was {} and is {}, and nobody did it", after.id, text(state), text(after.state)));
}

void TransitionChecker::check_resumed(const model::Run& after) {
  if (after.time_used != Duration(0) || after.losses != 0 || after.user_exits != 0 ||
      after.moves != 0 || after.stop_requested ||
      (after.not_before && after.not_before != after.spec.not_before))
    context_.report_violation(text(after.id) +
                              " is resumed without its whole time and all its retries");
  if (after.queued != context_.clock.now())
    context_.report_violation(text(after.id) + " is resumed and does not stand at the queue's end");
}

// An attempt uses up the time that its ranks ran.
void TransitionChecker::check_charge(const model::Run& before, const model::Run& after,
                                     const model::Attempt* ended) {
  const auto [least, most] =
      ended ? times_.charge_for(*ended, before.spec) : RunningTimes::Bounds();
  const Duration charge = after.time_used - before.time_used;
  if (charge < least || charge > most)
    context_.report_violation(
        format("{} is charged {}, its ranks ran for {} at least and {} at most", text(after.id),
               text(charge), text(least), text(most)));
}

// True if its newest checkpoint is further than those of the attempts before it.
bool TransitionChecker::made_progress(const model::Attempt& ended) const {
  if (!ended.last_checkpoint_step) return false;
  for (const auto& [id, attempt] : durable_.attempts)
    if (id.run == ended.id.run && id.epoch < ended.id.epoch &&
        attempt.last_checkpoint_step >= ended.last_checkpoint_step)
      return false;
  return true;
}

// True if a rank was killed by its program at the same step as in the attempt before.
bool TransitionChecker::crashed_again(const Commit& commit, const model::Attempt& ended) const {
  std::set<std::tuple<int, int, std::int64_t>> crashes;
  const auto crash_of = [](const model::Rank& rank) {
    return std::tuple(rank.rank, rank.code, rank.step);
  };
  const auto crashed = [](const model::Rank& rank) {
    return rank.state == model::RankState::killed && (rank.code == SIGSEGV || rank.code == SIGABRT);
  };
  const model::AttemptId before{ended.id.run, ended.id.epoch - 1};
  for (const model::Node* node : model::nodes_of(durable_, before))
    for (const model::Rank& rank : node->ranks)
      if (crashed(rank)) crashes.insert(crash_of(rank));
  for (const model::Node* node : model::nodes_of(durable_, ended.id)) {
    const auto changed = commit.nodes.find(node->id);
    for (const model::Rank& rank : (changed == commit.nodes.end() ? node : changed->second)->ranks)
      if (crashed(rank) && crashes.contains(crash_of(rank))) return true;
  }
  return false;
}

// True if ranks of this attempt and of the one before exited with the same code on other hosts.
bool TransitionChecker::exited_again(const Commit& commit, const model::Attempt& ended) const {
  std::set<int> codes;
  std::set<std::string> hosts;
  const auto exited = [](const model::Rank& rank) {
    return rank.state == model::RankState::exited && rank.code != 0;
  };
  for (const model::Node* node : model::nodes_of(durable_, {ended.id.run, ended.id.epoch - 1})) {
    hosts.insert(node->host);
    for (const model::Rank& rank : node->ranks)
      if (exited(rank)) codes.insert(rank.code);
  }
  bool again = false;
  for (const model::Node* node : model::nodes_of(durable_, ended.id)) {
    if (hosts.contains(node->host)) return false;
    const auto changed = commit.nodes.find(node->id);
    for (const model::Rank& rank : (changed == commit.nodes.end() ? node : changed->second)->ranks)
      again = again || (exited(rank) && codes.contains(rank.code));
  }
  return again;
}

// An attempt also uses up a retry if another follows it, except a preempted one. A newer checkpoint
// resets the count of losses.
void TransitionChecker::check_retries(const model::Run& before, const model::Run& after,
                                      const model::Attempt* ended) {
  const bool retried =
      ended && !model::is_final(after.state) && !model::is_preemption(ended->cause);
  const bool failed = ended && is_by_program(ended->cause);
  const int exits = retried && failed ? 1 : 0;
  const bool lost = ended && !failed && !model::is_preemption(ended->cause);
  const int losses =
      (lost && retried && made_progress(*ended) ? 0 : before.losses) + (lost && retried ? 1 : 0);
  if (after.user_exits != before.user_exits + exits || after.losses != losses)
    context_.report_violation(format("{} had used {} and {} retries; after {} it is {} and {}",
                                     text(after.id), before.user_exits, before.losses,
                                     retried ? text(ended->cause) : "no retry", after.user_exits,
                                     after.losses));
}

// A run that ends has the state that matches its last attempt.
void TransitionChecker::check_end(const Commit& commit, const model::Run& run,
                                  const model::Attempt* ended) {
  const model::Cause cause = ended ? ended->cause : model::Cause::cancelled;
  const bool spent = is_by_program(cause)
                         ? run.user_exits == run.spec.retries || exited_again(commit, *ended)
                         : run.losses == run.spec.rank_loss_retries ||
                               (cause == model::Cause::rank_lost && !made_progress(*ended) &&
                                crashed_again(commit, *ended));
  const auto gave_up = [&] {
    return !ended && failed_predecessor(CommitView(durable_, commit), run);
  };
  const bool right = run.state == model::RunState::succeeded   ? cause == model::Cause::ok
                     : run.state == model::RunState::cancelled ? run.stop_requested || gave_up()
                     : run.state == model::RunState::timed_out
                         ? cause == model::Cause::timeout || run.time_used >= model::time_limit(run)
                         : spent && cause != model::Cause::ok && cause != model::Cause::timeout &&
                               !model::is_preemption(cause);
  if (!right)
    context_.report_violation(format("{} ends as {} after cause {}, with {} and {} retries used",
                                     text(run.id), text(run.state), text(cause), run.user_exits,
                                     run.losses));
  const auto told = std::ranges::count(commit.notices, text(run.id), &model::Notice::run);
  if (told != 1)
    context_.report_violation(format("{} ends with {} notices, not one", text(run.id), told));
}

// Every change of a run reaches its watchers, because it increases the version.
void TransitionChecker::check_versions(const Commit& commit) {
  std::set<model::RunId> changed;
  for (const auto& [id, attempt] : commit.attempts) changed.insert(id.run);
  for (const auto& [id, node] : commit.nodes) {
    const model::Node* before = row(durable_.nodes, id);
    if (!before || model::has_material_change(*before, *node)) changed.insert(id.attempt.run);
  }
  for (const model::RunId& id : changed)
    if (!commit.runs.contains(id))
      context_.report_violation(text(id) + " changes, but not its version");
}

}  // namespace lockstep::sim
