// OpenPoints: the points of a run that are not sealed yet, by series and attempt, in the order of
// arrival.
#pragma once

#include <cstddef>
#include <functional>
#include <map>
#include <string>
#include <unordered_map>
#include <vector>

#include "platform/insight/series/series_store.h"

namespace lockstep::insight::series {

struct HashOfSeries {
  std::size_t operator()(const SeriesKey& key) const;
};

struct OpenSeries {
  std::vector<SeriesPoint> points;
  bool sorted = true;  // by step

  void add(const SeriesPoint& point) {
    sorted &= points.empty() || points.back().step <= point.step;
    points.push_back(point);
  }
  // By step, stable.
  std::vector<SeriesPoint> sorted_points() const;
};

// By attempt.
using OpenAttempts = std::map<std::int64_t, OpenSeries>;
using OpenPoints = std::unordered_map<SeriesKey, OpenAttempts, HashOfSeries>;

// The ranks that have points among open points, by metric, in the order of arrival.
using RanksOfMetrics = std::map<std::string, std::vector<std::int32_t>, std::less<>>;

// Memory of a series besides its points, about.
inline constexpr std::size_t kOpenSeriesBytes = 256;

}  // namespace lockstep::insight::series
