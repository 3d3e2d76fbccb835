#include "platform/insight/columns.h"

#include <algorithm>
#include <cstdint>
#include <string_view>
#include <utility>

#include "base/format.h"

namespace lockstep::insight {
namespace {

constexpr std::size_t kSourceMax = 64;
// Apart from the sources of agents, which are the names of nodes.
constexpr std::string_view kClient = "client:";

bool is_of_source(char letter) {
  return (letter >= 'a' && letter <= 'z') || (letter >= 'A' && letter <= 'Z') ||
         (letter >= '0' && letter <= '9') || letter == '-' || letter == '_' || letter == '.';
}

Result<void> check_mark(const api::PointsRequest& points) {
  if (points.source.empty()) {
    if (points.sequence == 0) return {};
    return Error{Code::invalid, "source: sequence needs the name of its caller"};
  }
  if (points.source.size() > kSourceMax || !std::ranges::all_of(points.source, is_of_source))
    return Error{Code::invalid,
                 format("source: has 1 to {} letters, digits, '-', '_' and '.'", kSourceMax)};
  if (points.sequence > 0) return {};
  return Error{Code::invalid, "sequence: that of a source begins with 1"};
}

Result<void> check_columns(const api::PointsRequest& points) {
  TRY(check_mark(points));
  if (points.values.size() != points.metrics.size())
    return Error{Code::invalid, format("values: has {} lists for {} metrics", points.values.size(),
                                       points.metrics.size())};
  for (std::size_t i = 0; i < points.values.size(); ++i)
    if (points.values[i].size() != points.steps.size())
      return Error{Code::invalid, format("values[{}]: has {} values for {} steps", i,
                                         points.values[i].size(), points.steps.size())};
  if (!points.times.empty() && points.times.size() != points.steps.size())
    return Error{Code::invalid,
                 format("times: has {} for {} steps", points.times.size(), points.steps.size())};
  const auto count = points.metrics.size() * points.steps.size();
  if (std::cmp_less_equal(count, api::kPointsOfBatchMax)) return {};
  return Error{Code::invalid, format("values: at most {} in all, got {}; send several batches",
                                     api::kPointsOfBatchMax, count)};
}

}  // namespace

Result<PointBatch> batch_of(const api::PointsRequest& points, const model::AttemptId& attempt,
                            Time now) {
  TRY(check_columns(points));
  PointBatch batch{
      .attempt = attempt, .source = {}, .sequence = points.sequence, .series = {}, .points = {}};
  if (!points.source.empty()) batch.source = std::string(kClient) + points.source;
  batch.points.reserve(points.metrics.size() * points.steps.size());
  for (std::size_t metric = 0; metric < points.metrics.size(); ++metric) {
    batch.series.push_back(
        {points.metrics[metric], RunPart::rank, static_cast<std::int32_t>(points.rank)});
    for (std::size_t i = 0; i < points.steps.size(); ++i) {
      const Time time = points.times.empty() ? now : Time(Duration(points.times[i]));
      batch.points.push_back(
          {static_cast<std::uint32_t>(metric), {points.steps[i], time, points.values[metric][i]}});
    }
  }
  return batch;
}

api::PointsAnswer answer_of(const Appended& appended, const PointBatch& batch) {
  api::PointsAnswer answer{.repeated = appended.repeated,
                           .stored = static_cast<std::int64_t>(appended.stored),
                           .rejected = static_cast<std::int64_t>(appended.rejected)};
  for (const RejectedPoint& rejected : appended.reasons) {
    const PointBatch::Point& point = batch.points[rejected.index];
    answer.reasons.push_back({.metric = batch.series[point.series].metric,
                              .step = point.point.step,
                              .reason = rejected.reason});
  }
  return answer;
}

}  // namespace lockstep::insight
