#include "sim/world/running_times.h"

#include <algorithm>
#include <ranges>
#include <utility>

namespace lockstep::sim {
namespace {

// The time of a report is stored no more often than this.
constexpr Duration kHeardInterval = std::chrono::seconds(5);

model::AttemptName attempt_of(const model::NodeReport& report) {
  return {report.generation, report.node.attempt};
}

bool reports_ended_ranks(const model::NodeReport& report) {
  return !report.ranks.empty() && std::ranges::none_of(report.ranks, [](const model::Rank& rank) {
    return rank.state == model::RankState::running;
  });
}

// Without ranks that their agent is about to end.
bool reports_running_ranks(const model::NodeReport& report) {
  return report.state == model::NodeState::running &&
         std::ranges::any_of(report.ranks, [](const model::Rank& rank) {
           return rank.state == model::RankState::running;
         });
}

Duration between(Duration from, Duration to) { return std::max(Duration(0), to - from); }

}  // namespace

void RunningTimes::rank_began(const model::AttemptName& attempt) {
  ObservedAttempt& seen = observed_[attempt];
  seen.all_began = context_.timeline.now();
  if (++seen.began == 1) seen.first = seen.all_began;
}

void RunningTimes::rank_ended(const model::AttemptName& attempt) {
  ObservedAttempt& seen = observed_[attempt];
  seen.last_end = context_.timeline.now();
  if (!seen.first_end) seen.first_end = seen.last_end;
}

void RunningTimes::rank_end_seen(const model::AttemptName& attempt) {
  observed_[attempt].last_end = context_.timeline.now();
}

void RunningTimes::report_arrived(const model::NodeReport& report) {
  if (!reports_ended_ranks(report))
    observed_[attempt_of(report)].last_arrived = context_.timeline.now();
}

void RunningTimes::report_accepted(const model::NodeReport& report, Duration arrived) {
  ObservedAttempt& seen = observed_[attempt_of(report)];
  if (!report.ranks.empty()) seen.known.emplace(report.node.index, arrived);
  if (reports_running_ranks(report)) seen.last_accepted = arrived;
}

void RunningTimes::forget_reports() {
  for (auto& [name, seen] : observed_) {
    seen.known.clear();
    seen.last_accepted = Duration(0);
  }
}

RunningTimes::Bounds RunningTimes::charge_for(const model::Attempt& attempt,
                                              const model::RunSpec& spec) const {
  const auto found = observed_.find(name_of(attempt));
  if (found == observed_.end() || !attempt.draining) return {};
  return {least_of(found->second, attempt, spec), most_of(found->second, attempt, spec)};
}

Duration RunningTimes::running_time(const model::Attempt& attempt,
                                    const model::RunSpec& spec) const {
  const auto found = observed_.find(name_of(attempt));
  if (found == observed_.end() || !attempt.draining) return Duration(0);
  const ObservedAttempt& seen = found->second;
  if (seen.began < model::rank_count(spec)) return Duration(0);
  return between(std::min(seen.all_began, seen.first + kStartTimeLimit), draining_of(attempt));
}

Duration RunningTimes::draining_of(const model::Attempt& attempt) const {
  return *attempt.draining - context_.clock.at(Duration(0));
}

// A late report may be the last sign of life of ranks that have ended.
Duration RunningTimes::most_of(const ObservedAttempt& seen, const model::Attempt& attempt,
                               const model::RunSpec& spec) const {
  if (seen.began < model::rank_count(spec)) return Duration(0);
  const Duration draining = draining_of(attempt);
  return between(seen.all_began, std::min(draining, std::max(seen.last_end, seen.last_arrived)));
}

Duration RunningTimes::least_of(const ObservedAttempt& seen, const model::Attempt& attempt,
                                const model::RunSpec& spec) const {
  // If its ranks started too late, no node may have reported that all of them run.
  if (attempt.cause == model::Cause::launch_failed) return Duration(0);
  if (std::cmp_less(seen.known.size(), model::node_count(spec))) return Duration(0);
  const Duration whole = std::ranges::max(seen.known | std::views::values);
  const Duration last_sign = seen.last_accepted - kHeardInterval;
  const Duration end =
      std::min({draining_of(attempt), last_sign, seen.first_end.value_or(last_sign)});
  return between(whole, end);
}

}  // namespace lockstep::sim
