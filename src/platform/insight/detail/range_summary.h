// RangeSummary: a range of a series, one point or many; and the reduction of ranges to the few
// points of an answer. Pure.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "platform/insight/insight.h"

namespace lockstep::insight {

struct RangeSummary {
  std::int64_t count = 0;
  api::Point first, last;              // by step
  std::optional<api::Point> min, max;  // by value; none if all values are NaN
  std::optional<api::Point> nan;       // the first that is not a number
};

RangeSummary summary_of_point(const api::Point& point);
// `next` follows `piece`: all its steps are greater.
void append_range(RangeSummary& piece, const RangeSummary& next);

// The points of a series from its ranges, in order. If each range is one point and all fit, all of
// them. Otherwise, for each of as many equal ranges as fit: the first, the last, the minimum, the
// maximum and the first NaN. At most `most` points, which must be at least 1; the last point is
// included.
std::vector<api::Point> downsample(const std::vector<RangeSummary>& pieces, std::int64_t most);

}  // namespace lockstep::insight
