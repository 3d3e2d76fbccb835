#include "platform/insight/series/detail/rank_statistics.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <limits>
#include <optional>
#include <utility>

namespace lockstep::insight::series {

bool is_less(double a, double b) { return std::isnan(b) ? !std::isnan(a) : a < b; }

// --- StepStatistics ---

void StepStatistics::add(std::int32_t rank, const SeriesPoint& point, bool sealed) {
  const double value = point.value;
  if (ranks_ == 0 || is_less(value, min_)) min_ = value, min_rank_ = rank;
  if (ranks_ == 0 || is_less(max_, value)) max_ = value, max_rank_ = rank;
  time_ = ranks_ == 0 ? point.time : std::max(time_, point.time);
  ++ranks_;
  if (sealed) ++sealed_ranks_;
  if (!std::isfinite(value)) {
    others_ += value;
    return;
  }
  const double difference = value - mean_;
  mean_ += difference / static_cast<double>(++finite_);
  squares_ += difference * (value - mean_);
}

double StepStatistics::value_of(Statistic statistic) const {
  const bool all_finite = finite_ == ranks_;
  switch (statistic) {
    case Statistic::mean:
      return all_finite ? mean_ : others_;
    case Statistic::min:
      return min_;
    case Statistic::max:
      return max_;
    case Statistic::spread:
      return all_finite ? std::sqrt(squares_ / static_cast<double>(ranks_))
                        : std::numeric_limits<double>::quiet_NaN();
    case Statistic::min_rank:
      return min_rank_;
    case Statistic::max_rank:
      return max_rank_;
    case Statistic::ranks:
      return static_cast<double>(ranks_);
  }
  return 0;
}

// --- StepTable ---

StepTable::StepTable(std::vector<std::int64_t> steps)
    : steps_(std::move(steps)), statistics_(steps_.size()), removed_(steps_.size()) {}

void StepTable::add(std::int32_t rank, std::span<const Piece> pieces,
                    const Unreadable& unreadable) {
  if (steps_.empty()) return;
  std::size_t at = 0;
  std::optional<SeriesPoint> pending;  // the last point of each step counts
  bool sealed = false;
  const auto put_pending = [&] {
    while (at < steps_.size() && steps_[at] < pending->step) ++at;
    if (at < steps_.size() && steps_[at] == pending->step)
      statistics_[at].add(rank, *pending, sealed);
  };
  const auto visit = [&](const Piece& piece, const SeriesPoint& point) {
    if (pending && pending->step != point.step) {
      put_pending();
      sealed = false;
    }
    sealed |= piece.segment != nullptr;
    pending = point;
    return point.step <= steps_.back();
  };
  if (pieces.size() == 1 && !pieces.front().segment) {  // usual, and without a queue
    for (const SeriesPoint& point : pieces.front().points)
      if (!visit(pieces.front(), point)) break;
  } else {
    std::vector<const Piece*> all;
    for (const Piece& piece : pieces) all.push_back(&piece);
    visit_points(std::move(all), steps_.front(), unreadable, visit);
  }
  if (pending) put_pending();
}

void StepTable::require_sealed(std::int64_t step, std::int64_t ranks) {
  const auto found = std::ranges::lower_bound(steps_, step);
  if (found == steps_.end() || *found != step) return;
  const auto at = static_cast<std::size_t>(found - steps_.begin());
  if (statistics_[at].sealed_ranks() < ranks) removed_[at] = true;
}

std::vector<SeriesPoint> StepTable::points(Statistic statistic) const {
  std::vector<SeriesPoint> points;
  points.reserve(steps_.size());
  for (std::size_t i = 0; i < steps_.size(); ++i)
    if (!removed_[i] && statistics_[i].ranks() > 0)
      points.push_back({steps_[i], statistics_[i].time(), statistics_[i].value_of(statistic)});
  return points;
}

// Ranks mostly have the same steps: then nothing is merged.
std::vector<std::int64_t> steps_of(const PiecesOfRanks& ranks, const StepRange& range) {
  std::vector<std::int64_t> all, some, both;
  for (const auto& [rank, pieces] : ranks)
    for (const Piece& piece : pieces) {
      some.clear();
      for (const SeriesPoint& point : piece.points)
        if (point.step >= range.first && point.step <= range.last &&
            (some.empty() || some.back() != point.step))
          some.push_back(point.step);
      if (std::ranges::includes(all, some)) continue;
      both.clear();
      std::ranges::set_union(all, some, std::back_inserter(both));
      all.swap(both);
    }
  return all;
}

}  // namespace lockstep::insight::series
