#include "sim/checks/queue_promise_checker.h"

#include <algorithm>
#include <utility>

#include "base/format.h"

namespace lockstep::sim {
namespace {

// How far a run may be overtaken, in its own time-outs (docs/design/scheduler.md); four times as
// far if its project is beyond its fair share.
constexpr int kTimeOutsYounger = 20;
constexpr int kShareMax = 400;

std::string names_of(const std::vector<model::RunId>& runs) {
  std::vector<std::string> names;
  for (const model::RunId& run : runs) names.push_back(text(run));
  return joined(names, ", ");
}

}  // namespace

void QueuePromiseChecker::check(const model::State& state,
                                const step::IncrementalScheduler& queue) {
  const Commit nothing;
  const CommitView rows(state, nothing);
  for (const model::RunId& id : state.open) check_preconditions(rows, state.runs.at(id));
  const QueueSnapshot snapshot = queue_snapshot_of(state, nothing);
  check_order(state, queue.waiting(), snapshot);
  check_start(queue.waiting(), snapshot);
  if (auto idle = SchedulingOracle(snapshot).check_no_run_idle(snapshot, context_.clock.now()))
    context_.report_violation(std::move(*idle));
}

// A run must not wait for a condition that is met or for one that can never be met.
void QueuePromiseChecker::check_preconditions(const CommitView& rows, const model::Run& run) {
  if (run.state != model::RunState::queued) return;
  if (run.not_before && *run.not_before <= context_.clock.now())
    context_.report_violation(
        format("{} waits on though {} has come", text(run.id), text(*run.not_before)));
  if (!run.awaits_dependencies) return;
  // A predecessor that ended at this tick may have been visited after the run.
  const model::Run* before = failed_predecessor(rows, run);
  if (before && *before->ended < context_.clock.now())
    context_.report_violation(format("{} waits for {}, which is {}", text(run.id), text(before->id),
                                     text(before->state)));
  if (!unfinished_predecessor(rows, run) &&
      last_end_of_predecessors(rows, run) < context_.clock.now())
    context_.report_violation(text(run.id) + " waits for others, and all have succeeded");
}

void QueuePromiseChecker::check_order(const model::State& state,
                                      const std::vector<sched::WaitingRun>& reported,
                                      const QueueSnapshot& snapshot) {
  std::vector<model::RunId> order;
  for (const sched::WaitingRun& waiting : reported) order.push_back(waiting.run);
  const SchedulingOracle oracle(snapshot);
  if (const auto right = oracle.order(snapshot); order != right)
    return context_.report_violation(
        format("they stand as {}, and should as {}", names_of(order), names_of(right)));
  check_overtaking(state, order, oracle.keys(snapshot));
}

// Runs of the same tier may overtake only so far, unless a user of the project lowered the run's
// priority. A small debug run may be in the debug share, and an earlier large one beyond it.
void QueuePromiseChecker::check_overtaking(const model::State& state,
                                           const std::vector<model::RunId>& order,
                                           const sched::NaiveQueue::Keys& keys) {
  const auto tier_of = [&](const model::RunId& run) {
    return std::get<sched::NaiveQueue::Tier>(keys.at(run));
  };
  for (std::size_t position = 0; position < order.size(); ++position) {
    const model::Run& run = state.runs.at(order[position]);
    const bool first_of_project = std::ranges::none_of(order, [&](const model::RunId& other) {
      return other.project == run.id.project && state.runs.at(other).priority > run.priority;
    });
    if (!first_of_project) continue;
    if (run.fair_share_used > kShareMax)
      context_.report_violation(
          format("{} counts {} % of its time-out", text(run.id), run.fair_share_used));
    for (std::size_t ahead = 0; ahead < position; ++ahead) {
      const model::Run& other = state.runs.at(order[ahead]);
      if (tier_of(other.id) != tier_of(run.id)) continue;
      if (other.queued >
          run.queued + kTimeOutsYounger * model::time_limit(run) * run.fair_share_used / 100)
        context_.report_violation(format("{} stands before {} and came {} later", text(other.id),
                                         text(run.id), text(other.queued - run.queued)));
    }
  }
}

void QueuePromiseChecker::check_start(const std::vector<sched::WaitingRun>& reported,
                                      const QueueSnapshot& snapshot) {
  const auto head = SchedulingOracle(snapshot).head(snapshot);
  if (!head || head->start == Time{}) return;
  const auto found = std::ranges::find(reported, head->run, &sched::WaitingRun::run);
  if (found == reported.end()) return;
  if (found->expected_start != head->start)
    context_.report_violation(format(
        "{} is told that it starts at {}, and it is {}", text(head->run),
        found->expected_start ? text(*found->expected_start) : "no time", text(head->start)));
}

// --- No later than reported ---

void QueuePromiseChecker::check_latest_starts(const model::State& state,
                                              const step::IncrementalScheduler& queue, bool well) {
  if (assumptions_broken(state, well)) promises_.clear();
  drop_promises_passed_by_new_runs(state);
  check_kept(state);
  last_states_.clear();
  for (const model::RunId& id : state.open) {
    const model::Run& run = state.runs.at(id);
    const bool waits = run.state == model::RunState::queued && !run.held;
    last_states_[id] = {waits, run.epoch, run.priority, run.extended};
  }
  if (well) record_promises(state, queue);
}

Duration QueuePromiseChecker::key_of(const model::Run& run) const {
  return on_timeline(run.queued) +
         kTimeOutsYounger * model::time_limit(run) * run.fair_share_used / 100;
}

bool QueuePromiseChecker::assumptions_broken(const model::State& state, bool well) {
  constexpr Duration kBreak = std::chrono::seconds(3);  // the daemon was away
  const Duration now = context_.timeline.now();
  bool broken = !well || now - std::exchange(checked_, now) > kBreak;
  if (map_ != state.map) {
    map_ = state.map;
    broken = true;
  }
  std::map<std::string, model::HostState> hosts;
  for (const auto& [id, host] : state.hosts)
    if (const auto placed = model::placement_state(host); placed != model::HostState::open)
      hosts[id] = placed;
  broken = std::exchange(hosts_, std::move(hosts)) != hosts_ || broken;
  broken = std::exchange(limits_, state.limits) != limits_ || broken;
  for (const model::RunId& id : state.open) {
    const model::Run& run = state.runs.at(id);
    if (const auto seen = last_states_.find(id); seen != last_states_.end())
      broken =
          broken || seen->second.priority != run.priority || seen->second.extended != run.extended;
  }
  broken = any_run_outlives_end(state) || broken;
  if (broken) ends_.clear();
  return broken;
}

// Also true if it begins to drain after the end that the promises assume, or ends since the last
// tick.
bool QueuePromiseChecker::any_run_outlives_end(const model::State& state) {
  const Duration now = context_.timeline.now();
  bool outlived =
      std::ranges::any_of(ends_, [&](const auto& entry) { return now > entry.second + overhead_; });
  std::map<model::AttemptId, Duration> ends;
  for (const model::RunId& id : state.open) {
    const model::Run& run = state.runs.at(id);
    const model::Attempt* attempt = model::live_attempt(state, id);
    if (!attempt) continue;
    const Duration end =
        on_timeline(attempt->draining.value_or(attempt->created + model::time_left(run)));
    const auto known = ends_.find(attempt->id);
    ends[attempt->id] = known == ends_.end() ? end : std::min(end, known->second);
    outlived = outlived || now > ends[attempt->id] + overhead_;
  }
  ends_ = std::move(ends);
  return outlived;
}

// The run is as at the last check, or has started since.
bool QueuePromiseChecker::is_unchanged(const model::Run& run) const {
  const auto seen = last_states_.find(run.id);
  if (seen == last_states_.end()) return false;
  if (!seen->second.waits)
    return run.state != model::RunState::queued && run.epoch == seen->second.epoch;
  return run.epoch == seen->second.epoch + (run.state == model::RunState::queued ? 0 : 1);
}

// New runs that wait now or have started since, and did not wait when the promises were made.
void QueuePromiseChecker::drop_promises_passed_by_new_runs(const model::State& state) {
  for (const model::RunId& id : state.open) {
    const model::Run& run = state.runs.at(id);
    if (run.held || is_unchanged(run)) continue;
    std::erase_if(promises_, [&](const auto& entry) {
      const auto& [waits, reported] = entry;
      const bool has_priority =
          run.id.project == waits.project && run.priority > state.runs.at(waits).priority;
      return run.spec.run_class != model::RunClass::normal || key_of(run) <= reported.key ||
             has_priority || model::time_limit(run) > reported.longest;
    });
  }
}

void QueuePromiseChecker::check_kept(const model::State& state) {
  std::erase_if(promises_, [&](const auto& entry) {
    const auto& [id, reported] = entry;
    const model::Run& run = state.runs.at(id);
    const std::int64_t epoch = last_states_.at(id).epoch;
    const bool starts = run.epoch > epoch;
    const Duration start =
        starts ? on_timeline(state.attempts.at({id, epoch + 1}).created) : context_.timeline.now();
    const bool over = starts || run.state != model::RunState::queued || run.held;
    if ((starts || !over) && start > reported.latest)
      context_.report_violation(format("{} {} {} after the latest start that it was told", text(id),
                                       starts ? "starts" : "waits on",
                                       text(start - reported.latest)));
    return over;
  });
}

void QueuePromiseChecker::record_promises(const model::State& state,
                                          const step::IncrementalScheduler& queue) {
  const auto& waiting = queue.waiting();
  Duration key = Duration::min();
  for (std::size_t i = 0; i < waiting.size(); ++i) {
    const model::RunId& id = waiting[i].run;
    key = std::max(key, key_of(state.runs.at(id)));
    const auto& latest = queue.start_times()[i].latest;
    if (!latest) continue;
    const auto known = promises_.find(id);
    if (known != promises_.end() && known->second.latest <= on_timeline(*latest)) continue;
    Duration longest{};
    for (const model::RunId& other : state.open)
      if (const model::Run& run = state.runs.at(other);
          other != id && run.state == model::RunState::queued && !run.held)
        longest = std::max(longest, model::time_left(run));
    promises_[id] = {on_timeline(*latest), key, longest};
  }
}

}  // namespace lockstep::sim
