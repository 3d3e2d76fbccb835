#include "platform/finding/rank_faults.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <ranges>
#include <utility>

#include "base/format.h"

namespace lockstep::finding {
namespace {

constexpr double kSlowRatio = 1.42;     // the geometric mean of full and half speed
constexpr double kSlowDataRatio = 1.1;  // of data loading to compute
constexpr double kStepMax = 0.4;        // the evidence of one step
constexpr std::size_t kFewRanks = 16;
constexpr double kRatioWeight = 0.1;  // of a step in the moving mean
// How long a step waits for ranks that do not log it: by the readings of all nodes, and where a
// node delivers none.
constexpr Duration kStepWait = std::chrono::seconds(30), kNodeWait = std::chrono::minutes(10);
constexpr std::size_t kTimesWaiting = 1'000'000;
constexpr std::int64_t kSilentSteps = 20;
constexpr Duration kSilentMin = std::chrono::seconds(30);

std::optional<double> positive(const std::map<std::string, double>& values, const char* name) {
  const auto found = values.find(name);
  if (found == values.end() || !std::isfinite(found->second) || found->second < 0)
    return std::nullopt;
  return found->second;
}

Subject subject(FindingKind kind, const RankPlace& place) {
  return {.kind = kind, .node = place.node, .rank = place.rank, .device = place.device};
}

double median(std::vector<double> values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>((values.size() - 1) / 2);
  std::ranges::nth_element(values, middle);
  return *middle;
}

double median_of_others(std::vector<double> values, std::size_t but) {
  values.erase(values.begin() + static_cast<std::ptrdiff_t>(but));
  std::ranges::sort(values);
  const std::size_t upper = values.size() / 2;
  return values.size() % 2 == 1 ? values[upper] : (values[upper - 1] + values[upper]) / 2;
}

}  // namespace

// After a restart an open finding goes on until there is evidence against it.
void RankFaults::Evidence::add(double ratio, Time time, bool was_open) {
  if (!std::exchange(has_begun_, true) && was_open) sum_ = kFull;
  const double before = sum_;
  sum_ = std::clamp(sum_ + std::clamp(std::log(ratio), -kStepMax, kStepMax), 0.0, kFull);
  if (before <= 0 && sum_ > 0) since_ = time;
}

void RankFaults::observe_node(int node, Time time) {
  Time& newest = nodes_[node];
  newest = std::max(newest, time);
  newest_ = std::max(newest_, time);
}

void RankFaults::observe(const RankPlace& place, std::int64_t step, Time time,
                         const std::map<std::string, double>& values, OpenFindings& findings) {
  observe_node(place.node, time);
  const auto compute = positive(values, "compute_seconds");
  Rank& row = ranks_[place.rank];
  row.place = place;
  const bool is_newer = step > row.step;
  if (is_newer) {
    row.step = step;
    row.time = std::max(row.time, time);
    ++row.reports;
    findings.end(subject(FindingKind::silent_rank, place), time);
  }
  if (compute && step > row.timed_step) {
    row.timed_step = step;
    if (step > judged_) {
      Step& waiting = steps_[step];
      waiting.time = std::max(waiting.time, time);
      waiting.times.push_back({place.rank, *compute, positive(values, "data_seconds")});
      ++waiting_times_;
      judge_steps(findings);
    }
  }
  newest_step_ = std::max(newest_step_, step);
  if (is_newer) judge_silence(time, findings);
}

bool RankFaults::is_due(const Step& step) {
  if (step.times.size() >= rank_count_ || waiting_times_ > kTimesWaiting) return true;
  if (newest_ - step.time < kStepWait) return false;
  if (newest_ - step.time >= kNodeWait) return true;
  if (nodes_.size() < node_count_) return false;
  if (newest_ - all_until_at_ >= std::chrono::seconds(1)) {
    all_until_at_ = newest_;
    all_until_ = std::ranges::min(nodes_ | std::views::values);
  }
  return all_until_ - step.time >= kStepWait;
}

// In order: a step behind one that waits, waits too.
void RankFaults::judge_steps(OpenFindings& findings) {
  while (!steps_.empty()) {
    const auto oldest = steps_.begin();
    if (!is_due(oldest->second)) return;
    judge(oldest->second, findings);
    judged_ = oldest->first;
    waiting_times_ -= oldest->second.times.size();
    steps_.erase(oldest);
  }
}

// The usual time is the median of the ranks; of few ranks, that of the others, because a rank would
// be a large part of its own measure.
void RankFaults::judge(const Step& step, OpenFindings& findings) {
  judge_data_loading(step, findings);
  if (step.times.size() < 2) return;
  std::vector<double> own_times;
  for (const StepTime& time : step.times) own_times.push_back(time.compute + time.data.value_or(0));
  const bool is_large = own_times.size() > kFewRanks;
  const double usual_of_all = is_large ? median(own_times) : 0;
  for (std::size_t i = 0; i < step.times.size(); ++i) {
    const StepTime& time = step.times[i];
    const double usual = is_large ? usual_of_all : median_of_others(own_times, i);
    if (usual <= 0) continue;
    Rank& rank = ranks_.at(time.rank);
    const double ratio = own_times[i] / usual;
    rank.ratio += (ratio - rank.ratio) * kRatioWeight;
    const Subject straggler = subject(FindingKind::straggler, rank.place);
    rank.slow.add(ratio / kSlowRatio, step.time, findings.has(straggler));
    if (rank.slow.is_full())
      findings.observe(
          straggler, rank.slow.since(), step.time,
          format("its steps take {:.1f} times as long as those of the other ranks", rank.ratio),
          true);
    if (rank.slow.is_empty()) findings.end(straggler, step.time);
  }
}

void RankFaults::judge_data_loading(const Step& step, OpenFindings& findings) {
  double data = 0, compute = 0;
  std::size_t known = 0;
  for (const StepTime& time : step.times) {
    if (!time.data) continue;
    data += *time.data;
    compute += time.compute;
    ++known;
  }
  if (known == 0) return;
  const auto count = static_cast<double>(known);
  const Subject loading{.kind = FindingKind::data_loading};
  slow_data_.add(data / (kSlowDataRatio * std::max(compute, 1e-9)), step.time,
                 findings.has(loading));
  if (slow_data_.is_full())
    findings.observe(loading, slow_data_.since(), step.time,
                     format("the ranks wait {:.3g} s a step for data, and compute {:.3g} s",
                            data / count, compute / count),
                     false);
  if (slow_data_.is_empty()) findings.end(loading, step.time);
}

// Looks at all ranks once for each further step.
void RankFaults::judge_silence(Time now, OpenFindings& findings) {
  if (newest_step_ <= silence_judged_ || ranks_.size() < 2) return;
  silence_judged_ = newest_step_;
  std::vector<double> steps;
  for (const auto& [number, rank] : ranks_) steps.push_back(static_cast<double>(rank.step));
  const auto usual = static_cast<std::int64_t>(median(std::move(steps)));
  for (const auto& [number, rank] : ranks_) {
    // A rank that logs rarely is not silent between two reports.
    if (rank.reports < kSilentSteps || usual - rank.step < kSilentSteps) continue;
    const auto node = nodes_.find(rank.place.node);
    if (node == nodes_.end() || node->second - rank.time < kSilentMin) continue;
    findings.observe(
        subject(FindingKind::silent_rank, rank.place), rank.time, now,
        format("it has logged nothing since step {}; most ranks are at step {}", rank.step, usual),
        false);
  }
}

}  // namespace lockstep::finding
