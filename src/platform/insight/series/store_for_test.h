// For tests of the store: batches, and a plain list of points as the truth.
#pragma once

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "platform/insight/series/series_store.h"

namespace lockstep::insight::series {

inline const model::RunId kTestRun{"demo", 42};
inline const SeriesKey kLoss{.metric = "train/loss"};

// At the ends of the steps the time wraps around.
inline SeriesPoint point_at(std::int64_t step, double value) {
  const std::uint64_t time =
      1'700'000'000'000'000 + static_cast<std::uint64_t>(step) * std::uint64_t{350'000};
  return {step, Time(Duration(static_cast<std::int64_t>(time))), value};
}

inline bool is_same(const SeriesPoint& a, const SeriesPoint& b) {
  return a.step == b.step && a.time == b.time &&
         std::bit_cast<std::uint64_t>(a.value) == std::bit_cast<std::uint64_t>(b.value);
}

// Points of one series.
inline PointBatch batch_of(const std::vector<SeriesPoint>& points, std::int64_t epoch = 1,
                           const SeriesKey& key = kLoss) {
  PointBatch batch{.attempt = {kTestRun, epoch}, .source = {}, .series = {key}, .points = {}};
  for (const SeriesPoint& point : points) batch.points.push_back({0, point});
  return batch;
}

// All points in the order of arrival.
class Truth {
 public:
  void add(const PointBatch& batch) {
    for (const auto& [series, point] : batch.points)
      points_[batch.series[series]].push_back({batch.attempt.epoch, point});
  }
  void clear() { points_.clear(); }
  const std::map<SeriesKey, std::vector<AttemptPoint>>& series() const { return points_; }

  // By attempt, step and arrival.
  std::vector<AttemptPoint> all(const SeriesKey& key) const {
    const auto found = points_.find(key);
    if (found == points_.end()) return {};
    std::vector<AttemptPoint> sorted = found->second;
    std::ranges::stable_sort(sorted, {}, [](const AttemptPoint& each) {
      return std::pair(each.epoch, each.point.step);
    });
    return sorted;
  }
  // The newest attempt's last value of each step.
  std::vector<SeriesPoint> newest(const SeriesKey& key) const {
    std::map<std::int64_t, SeriesPoint> by_step;
    for (const AttemptPoint& each : all(key)) by_step[each.point.step] = each.point;
    std::vector<SeriesPoint> points;
    for (const auto& [step, point] : by_step) points.push_back(point);
    return points;
  }

 private:
  std::map<SeriesKey, std::vector<AttemptPoint>> points_;
};

inline std::vector<AttemptPoint> all_pages(SeriesStore& store, const SeriesKey& key,
                                           std::int64_t most) {
  std::vector<AttemptPoint> points;
  PointsQuery query{.run = kTestRun, .series = key, .epoch = {}, .range = {}, .most = most};
  while (true) {
    const PointsPage page = store.points(query).value();
    points.insert(points.end(), page.points.begin(), page.points.end());
    if (!page.next) return points;
    query.from = *page.next;
  }
}

// Every point is there, with its bits.
inline void expect_all(SeriesStore& store, const Truth& truth, std::int64_t most = 1000) {
  for (const auto& [key, points] : truth.series()) {
    const auto expected = truth.all(key);
    const auto found = all_pages(store, key, most);
    ASSERT_EQ(found.size(), expected.size()) << key.metric;
    for (std::size_t i = 0; i < found.size(); ++i) {
      ASSERT_EQ(found[i].epoch, expected[i].epoch) << key.metric << " point " << i;
      ASSERT_TRUE(is_same(found[i].point, expected[i].point)) << key.metric << " point " << i;
    }
  }
}

// The curve has stored points only, by step, the ends, and for each stored point one at least as
// small and one at least as large in its pixel or a neighbour: borders move by up to a block.
inline void expect_curve(SeriesStore& store, const Truth& truth, const SeriesKey& key,
                         std::int64_t pixels, const StepRange& range = {}) {
  const Curve curve =
      store.curve({.run = kTestRun, .series = key, .epoch = {}, .range = range, .pixels = pixels})
          .value();
  std::map<std::int64_t, SeriesPoint> expected;
  for (const SeriesPoint& point : truth.newest(key))
    if (point.step >= range.first && point.step <= range.last) expected[point.step] = point;
  ASSERT_EQ(curve.total, std::ssize(expected));
  ASSERT_EQ(curve.points.empty(), expected.empty());
  if (expected.empty()) return;
  ASSERT_EQ(curve.points.front().step, expected.begin()->first);
  ASSERT_EQ(curve.points.back().step, expected.rbegin()->first);
  const bool given = range.last != StepRange{}.last;
  const auto first = given ? range.first : expected.begin()->first;
  const auto width = (static_cast<double>((given ? range.last : expected.rbegin()->first)) -
                      static_cast<double>(first) + 1) /
                     static_cast<double>(pixels);
  const auto pixel_of = [&](std::int64_t step) {
    return static_cast<std::int64_t>((static_cast<double>(step) - static_cast<double>(first)) /
                                     width);
  };
  struct Bounds {
    double least = INFINITY, greatest = -INFINITY;
    bool nan = false;
  };
  std::map<std::int64_t, Bounds> drawn;
  std::int64_t last = first;
  for (const SeriesPoint& point : curve.points) {
    ASSERT_TRUE(&point == &curve.points.front() || point.step > last) << "not by step";
    last = point.step;
    ASSERT_TRUE(expected.contains(point.step));
    const SeriesPoint& stored = expected[point.step];
    ASSERT_EQ(point.time, stored.time);
    ASSERT_TRUE(is_same(point, stored) || (std::isnan(point.value) && std::isnan(stored.value)));
    Bounds& bounds = drawn[pixel_of(point.step)];
    bounds.least = std::fmin(bounds.least, point.value);
    bounds.greatest = std::fmax(bounds.greatest, point.value);
    bounds.nan |= std::isnan(point.value);
  }
  for (const auto& [step, point] : expected) {
    Bounds near;
    for (const std::int64_t pixel : {pixel_of(step) - 1, pixel_of(step), pixel_of(step) + 1}) {
      near.least = std::fmin(near.least, drawn[pixel].least);
      near.greatest = std::fmax(near.greatest, drawn[pixel].greatest);
      near.nan |= drawn[pixel].nan;
    }
    if (std::isnan(point.value)) {
      ASSERT_TRUE(near.nan) << "step " << step << " of " << pixels << " pixels";
      continue;
    }
    ASSERT_LE(near.least, point.value) << "step " << step << " of " << pixels << " pixels";
    ASSERT_GE(near.greatest, point.value) << "step " << step << " of " << pixels << " pixels";
  }
}

}  // namespace lockstep::insight::series
