// Many points of a run in one call, in columns. See messages.h.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "text/record.h"

namespace lockstep::api {

inline constexpr std::int64_t kPointsOfBatchMax = 100'000;

// Each of the metrics has a value at each of the steps.
struct PointsRequest {
  std::vector<std::string> metrics = {};
  std::vector<std::int64_t> steps = {};
  std::vector<std::vector<double>> values = {};
  std::vector<std::int64_t> times = {};
  int rank = 0;
  std::string source = {};
  std::int64_t sequence = 0;

  static constexpr auto fields() {
    return record<PointsRequest>(
        required(field("metrics", &PointsRequest::metrics, "names of metrics")),
        required(field("steps", &PointsRequest::steps, "steps")),
        required(field("values", &PointsRequest::values,
                       "for each metric a list with its value at each step; NaN and infinities "
                       "are the words \"NaN\", \"Infinity\", \"-Infinity\". At most 100,000 in "
                       "all")),
        field("times", &PointsRequest::times,
              "of each step, in microseconds since 1970; empty: now"),
        between(0, 2'147'483'647, field("rank", &PointsRequest::rank, "the rank that logged them")),
        field("source", &PointsRequest::source,
              "with `sequence`: names the caller, 1 to 64 letters, digits, '-', '_' and '.'; a "
              "batch whose sequence is not above the last one of its source is not stored again. "
              "Empty: each call is stored"),
        between(0, 9'223'372'036'854'775'807,
                field("sequence", &PointsRequest::sequence,
                      "of the batch, from 1 on; it ascends from batch to batch")));
  }
};

struct RefusedPoint {
  std::string metric = {};
  std::int64_t step = 0;
  std::string reason = {};

  static constexpr auto fields() {
    return record<RefusedPoint>(field("metric", &RefusedPoint::metric, "the metric"),
                                field("step", &RefusedPoint::step, "the step"),
                                field("reason", &RefusedPoint::reason, "why it is not stored"));
  }
};

struct PointsAnswer {
  bool repeated = false;
  std::int64_t stored = 0;
  std::int64_t rejected = 0;
  std::vector<RefusedPoint> reasons = {};

  static constexpr auto fields() {
    return record<PointsAnswer>(
        field("repeated", &PointsAnswer::repeated, "the batch was stored before"),
        field("stored", &PointsAnswer::stored, "points that are stored now"),
        field("rejected", &PointsAnswer::rejected, "points that are not stored"),
        field("reasons", &PointsAnswer::reasons, "of the first 100 of these"));
  }
};

}  // namespace lockstep::api
