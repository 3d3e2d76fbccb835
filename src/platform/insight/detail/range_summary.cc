#include "platform/insight/detail/range_summary.h"

#include <algorithm>
#include <cmath>

namespace lockstep::insight {
namespace {

constexpr std::int64_t kPointsOfSummary = 5;

bool less_value(const api::Point& a, const api::Point& b) { return a.value < b.value; }

// Its distinct points, by step.
void add_points(const RangeSummary& piece, std::vector<api::Point>& points) {
  std::vector<api::Point> some = {piece.first, piece.last};
  for (const auto& point : {piece.min, piece.max, piece.nan})
    if (point) some.push_back(*point);
  std::ranges::sort(some, {}, &api::Point::step);
  const auto same = [](const api::Point& a, const api::Point& b) { return a.step == b.step; };
  some.erase(std::unique(some.begin(), some.end(), same), some.end());
  points.insert(points.end(), some.begin(), some.end());
}

// At most `groups` ranges with about the same number of points in each.
std::vector<api::Point> points_of_groups(const std::vector<RangeSummary>& pieces,
                                         std::int64_t total, std::int64_t groups) {
  std::vector<api::Point> points;
  RangeSummary group;
  std::int64_t done = 0, made = 0;
  for (const RangeSummary& piece : pieces) {
    append_range(group, piece);
    done += piece.count;
    // A product of points and groups is far below 2^63: answers are small.
    if (done * groups < total * (made + 1)) continue;
    made = done * groups / total;
    add_points(group, points);
    group = {};
  }
  return points;
}

}  // namespace

RangeSummary summary_of_point(const api::Point& point) {
  RangeSummary piece{.count = 1, .first = point, .last = point, .min = {}, .max = {}, .nan = {}};
  if (std::isnan(point.value))
    piece.nan = point;
  else
    piece.min = piece.max = point;
  return piece;
}

void append_range(RangeSummary& piece, const RangeSummary& next) {
  if (piece.count == 0) {
    piece = next;
    return;
  }
  piece.count += next.count;
  piece.last = next.last;
  if (next.min && (!piece.min || less_value(*next.min, *piece.min))) piece.min = next.min;
  if (next.max && (!piece.max || less_value(*piece.max, *next.max))) piece.max = next.max;
  if (!piece.nan) piece.nan = next.nan;
}

std::vector<api::Point> downsample(const std::vector<RangeSummary>& pieces, std::int64_t most) {
  std::int64_t total = 0;
  for (const RangeSummary& piece : pieces) total += piece.count;
  std::vector<api::Point> points;
  // Most ranges have fewer than five distinct points: start with more ranges, then reduce.
  const auto sure = std::max<std::int64_t>(1, most / kPointsOfSummary);
  std::int64_t groups = std::max<std::int64_t>(1, most / 2);
  if (total <= most) groups = total;
  for (;; groups = std::max(sure, groups * 3 / 4)) {
    points = points_of_groups(pieces, total, groups);
    if (static_cast<std::int64_t>(points.size()) <= most || groups <= sure) break;
  }
  // Fewer than five points fit: the newest.
  if (const auto size = static_cast<std::int64_t>(points.size()); size > most)
    points.erase(points.begin(), points.begin() + (size - most));
  return points;
}

}  // namespace lockstep::insight
