#include "platform/insight/detail/piece.h"

#include <algorithm>
#include <cmath>

namespace lockstep::insight {
namespace {

constexpr std::int64_t kPointsOfPiece = 5;

bool less_value(const Point& a, const Point& b) { return a.value < b.value; }

// Its distinct points, by step.
void add_points(const Piece& piece, std::vector<Point>& points) {
  std::vector<Point> some = {piece.first, piece.last};
  for (const auto& point : {piece.min, piece.max, piece.nan})
    if (point) some.push_back(*point);
  std::ranges::sort(some, {}, &Point::step);
  const auto same = [](const Point& a, const Point& b) { return a.step == b.step; };
  some.erase(std::unique(some.begin(), some.end(), same), some.end());
  points.insert(points.end(), some.begin(), some.end());
}

// At most `groups` stretches with about the same number of points in each.
std::vector<Point> points_of_groups(const std::vector<Piece>& pieces, std::int64_t total,
                                    std::int64_t groups) {
  std::vector<Point> points;
  Piece group;
  std::int64_t done = 0, made = 0;
  for (const Piece& piece : pieces) {
    append(group, piece);
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

Piece piece_of(const Point& point) {
  Piece piece{.count = 1, .first = point, .last = point, .min = {}, .max = {}, .nan = {}};
  if (std::isnan(point.value))
    piece.nan = point;
  else
    piece.min = piece.max = point;
  return piece;
}

void append(Piece& piece, const Piece& next) {
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

std::vector<Point> thin(const std::vector<Piece>& pieces, std::int64_t most) {
  std::int64_t total = 0;
  for (const Piece& piece : pieces) total += piece.count;
  std::vector<Point> points;
  // Most stretches have fewer than five distinct points: begin with more of them, then fit.
  const auto sure = std::max<std::int64_t>(1, most / kPointsOfPiece);
  std::int64_t groups = std::max<std::int64_t>(1, most / 2);
  if (total <= most) groups = total;
  for (;; groups = std::max(sure, groups * 3 / 4)) {
    points = points_of_groups(pieces, total, groups);
    if (static_cast<std::int64_t>(points.size()) <= most || groups <= sure) break;
  }
  // Room for fewer than five: the newest.
  if (const auto size = static_cast<std::int64_t>(points.size()); size > most)
    points.erase(points.begin(), points.begin() + (size - most));
  return points;
}

}  // namespace lockstep::insight
