#include "sim/running_times.h"

#include <algorithm>
#include <ranges>
#include <utility>

namespace lockstep::sim {
namespace {

// That a node was heard is written down no more often than this.
constexpr Duration kHeardInterval = std::chrono::seconds(5);

AttemptName attempt_of(const NodeReport& report) {
  return {report.generation, report.node.attempt};
}

bool says_that_ranks_have_ended(const NodeReport& report) {
  return !report.ranks.empty() && std::ranges::none_of(report.ranks, [](const Rank& rank) {
    return rank.state == RankState::running;
  });
}

// Not those that their agent is about to end.
bool says_that_ranks_run(const NodeReport& report) {
  return report.state == NodeState::running &&
         std::ranges::any_of(report.ranks,
                             [](const Rank& rank) { return rank.state == RankState::running; });
}

Duration between(Duration from, Duration to) { return std::max(Duration(0), to - from); }

}  // namespace

void RunningTimes::rank_began(const AttemptName& attempt) {
  Observed& seen = observed_[attempt];
  seen.whole = scene_.timeline.now();
  if (++seen.began == 1) seen.first = seen.whole;
}

void RunningTimes::rank_ended(const AttemptName& attempt) {
  Observed& seen = observed_[attempt];
  seen.last_end = scene_.timeline.now();
  if (!seen.first_end) seen.first_end = seen.last_end;
}

void RunningTimes::said(const NodeReport& report) {
  if (!says_that_ranks_have_ended(report))
    observed_[attempt_of(report)].last_said = scene_.timeline.now();
}

void RunningTimes::taken(const NodeReport& report, Duration arrived) {
  Observed& seen = observed_[attempt_of(report)];
  if (!report.ranks.empty()) seen.known.emplace(report.node.index, arrived);
  if (says_that_ranks_run(report)) seen.last_taken = arrived;
}

void RunningTimes::forget_words() {
  for (auto& [name, seen] : observed_) {
    seen.known.clear();
    seen.last_taken = Duration(0);
  }
}

RunningTimes::Bounds RunningTimes::charge_for(const Attempt& attempt, const RunSpec& spec) const {
  const auto found = observed_.find(name_of(attempt));
  if (found == observed_.end() || !attempt.draining) return {};
  return {least_of(found->second, attempt, spec), most_of(found->second, attempt, spec)};
}

Duration RunningTimes::time_of(const Attempt& attempt, const RunSpec& spec) const {
  const auto found = observed_.find(name_of(attempt));
  if (found == observed_.end() || !attempt.draining) return Duration(0);
  const Observed& seen = found->second;
  if (seen.began < rank_count(spec)) return Duration(0);
  return between(std::min(seen.whole, seen.first + kStart), draining_of(attempt));
}

Duration RunningTimes::draining_of(const Attempt& attempt) const {
  return *attempt.draining - scene_.clock.at(Duration(0));
}

// Words that were late may be the last sign of life, of ranks that have ended.
Duration RunningTimes::most_of(const Observed& seen, const Attempt& attempt,
                               const RunSpec& spec) const {
  if (seen.began < rank_count(spec)) return Duration(0);
  const Duration draining = draining_of(attempt);
  return between(seen.whole, std::min(draining, std::max(seen.last_end, seen.last_said)));
}

Duration RunningTimes::least_of(const Observed& seen, const Attempt& attempt,
                                const RunSpec& spec) const {
  // If its ranks started too late, no node may ever have said that all of them run.
  if (attempt.cause == Cause::launch_failed) return Duration(0);
  if (std::cmp_less(seen.known.size(), node_count(spec))) return Duration(0);
  const Duration whole = std::ranges::max(seen.known | std::views::values);
  const Duration last_sign = seen.last_taken - kHeardInterval;
  const Duration end =
      std::min({draining_of(attempt), last_sign, seen.first_end.value_or(last_sign)});
  return between(whole, end);
}

}  // namespace lockstep::sim
