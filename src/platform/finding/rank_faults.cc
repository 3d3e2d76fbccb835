#include "platform/finding/rank_faults.h"

#include <algorithm>
#include <chrono>
#include <cmath>

#include "base/format.h"

namespace lockstep::finding {
namespace {

constexpr double kSlowRatio = 1.4;
constexpr std::size_t kSlowToBegin = 8, kSlowToEnd = 2;  // of the window's steps
constexpr double kRatioWeight = 0.1;                     // of a step in the moving mean
// Steps that wait for a rank that does not log them; then they are judged without it.
constexpr std::int64_t kStepsWaiting = 200;
constexpr std::size_t kTimesWaiting = 1'000'000;
constexpr std::int64_t kSilentSteps = 20;
constexpr Duration kSilentMin = std::chrono::seconds(30);

std::optional<double> positive(const std::map<std::string, double>& values, const char* name) {
  const auto found = values.find(name);
  if (found == values.end() || !std::isfinite(found->second) || found->second < 0)
    return std::nullopt;
  return found->second;
}

double median(std::vector<double> values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>((values.size() - 1) / 2);
  std::ranges::nth_element(values, middle);
  return *middle;
}

}  // namespace

std::optional<bool> RankFaults::Window::add(bool is_slow, Time time) {
  if (is_slow && slow.none()) since = time;
  slow <<= 1;
  slow[0] = is_slow;
  steps = std::min(steps + 1, kWindow);
  if (is_slow && slow.count() >= kSlowToBegin) return true;
  if (steps == kWindow && slow.count() <= kSlowToEnd) return false;
  return std::nullopt;
}

void RankFaults::observe_node(int node, Time time) {
  Time& newest = nodes_[node];
  newest = std::max(newest, time);
}

void RankFaults::observe(int node, int rank, std::int64_t step, Time time,
                         const std::map<std::string, double>& values, OpenFindings& findings) {
  observe_node(node, time);
  const auto compute = positive(values, "compute_seconds");
  Rank& row = ranks_[rank];
  row.node = node;
  const bool is_newer = step > row.step;
  if (is_newer) {
    row.step = step;
    row.time = std::max(row.time, time);
    ++row.reports;
    findings.end({.kind = FindingKind::silent_rank, .node = node, .rank = rank}, time);
  }
  if (compute && step > row.timed_step) {
    if (row.timed_step < 0) ++timed_ranks_;
    row.timed_step = step;
    if (step > judged_) {
      Step& waiting = steps_[step];
      waiting.time = std::max(waiting.time, time);
      waiting.times.push_back({rank, *compute, positive(values, "data_seconds")});
      ++waiting_times_;
      judge_steps(findings);
    }
  }
  newest_step_ = std::max(newest_step_, step);
  if (is_newer) judge_silence(time, findings);
}

bool RankFaults::is_complete(const Step& step) const { return step.times.size() >= timed_ranks_; }

// In order: a step behind one that waits, waits too.
void RankFaults::judge_steps(OpenFindings& findings) {
  while (!steps_.empty()) {
    const auto oldest = steps_.begin();
    const bool waits_long = steps_.rbegin()->first - oldest->first > kStepsWaiting ||
                            waiting_times_ > kTimesWaiting;
    if (!is_complete(oldest->second) && !waits_long) return;
    judge(oldest->second, findings);
    judged_ = oldest->first;
    waiting_times_ -= oldest->second.times.size();
    steps_.erase(oldest);
  }
}

// The median is the lower one of two, so that the slower one of two ranks stands out.
void RankFaults::judge(const Step& step, OpenFindings& findings) {
  judge_data_loading(step, findings);
  if (step.times.size() < 2) return;
  std::vector<double> computes;
  for (const StepTime& time : step.times) computes.push_back(time.compute);
  const double usual = median(std::move(computes));
  if (usual <= 0) return;
  for (const StepTime& time : step.times) {
    Rank& rank = ranks_.at(time.rank);
    const double ratio = time.compute / usual;
    rank.ratio += (ratio - rank.ratio) * (rank.window.steps == 0 ? 1 : kRatioWeight);
    const Subject subject{
        .kind = FindingKind::straggler, .node = rank.node, .rank = time.rank};
    const auto slow = rank.window.add(ratio >= kSlowRatio, step.time);
    if (slow == true)
      findings.observe(subject, rank.window.since, step.time,
                       format("its steps take {:.1f} times as long as those of the other ranks",
                              rank.ratio),
                       true);
    if (slow == false) findings.end(subject, step.time);
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
  const Subject subject{.kind = FindingKind::data_loading};
  const auto slow = data_loading_.add(data > compute, step.time);
  if (slow == true)
    findings.observe(subject, data_loading_.since, step.time,
                     format("the ranks wait {:.3g} s a step for data, and compute {:.3g} s",
                            data / count, compute / count),
                     false);
  if (slow == false) findings.end(subject, step.time);
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
    const auto node = nodes_.find(rank.node);
    if (node == nodes_.end() || node->second - rank.time < kSilentMin) continue;
    findings.observe({.kind = FindingKind::silent_rank, .node = rank.node, .rank = number},
                     rank.time, now,
                     format("it has logged nothing since step {}; most ranks are at step {}",
                            rank.step, usual),
                     false);
  }
}

}  // namespace lockstep::finding
