// Points that come in columns, from clients and imports.
#include <algorithm>
#include <cstdint>
#include <string_view>
#include <utility>
#include <vector>

#include "platform/insight/detail/points.h"
#include "platform/insight/detail/run_counters.h"
#include "platform/insight/insight.h"

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

std::vector<Time> times_of(const api::PointsRequest& points, Time now) {
  std::vector<Time> times(points.steps.size(), now);
  for (std::size_t i = 0; i < points.times.size(); ++i) times[i] = Time(Duration(points.times[i]));
  return times;
}

PointBatch batch_of(const PointColumns& columns, const model::RunId& run,
                    const std::vector<Time>& times) {
  const api::PointsRequest& points = columns.points;
  PointBatch batch;
  batch.attempt = {run, columns.node.id.attempt.epoch};
  if (!points.source.empty()) batch.source = std::string(kClient) + points.source;
  batch.sequence = points.sequence;
  batch.points.reserve(points.metrics.size() * points.steps.size());
  for (std::size_t metric = 0; metric < points.metrics.size(); ++metric) {
    batch.series.push_back(
        {points.metrics[metric], RunPart::rank, static_cast<std::int32_t>(points.rank)});
    for (std::size_t i = 0; i < points.steps.size(); ++i)
      batch.points.push_back({static_cast<std::uint32_t>(metric),
                              {points.steps[i], times[i], points.values[metric][i]}});
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

}  // namespace

// The series store comes first, with a mark of its own: if the database then fails, the caller
// sends the batch again, and only the latest values are stored.
Result<api::PointsAnswer> Insight::append(const PointColumns& columns) {
  const api::PointsRequest& points = columns.points;
  TRY(check_columns(points));
  if (points.metrics.empty() || points.steps.empty()) return api::PointsAnswer();
  TRY(check_space());
  const model::RunId& run = columns.node.id.attempt.run;
  const std::vector<Time> times = times_of(points, columns.now);
  api::PointsAnswer answer;
  TRY(database_.transaction([&]() -> Result<void> {
    RunCounters counters = TRY(find_or_create_counters(database_, run, columns.node.generation));
    const PointBatch batch = batch_of(columns, series_run(counters, run), times);
    const Appended appended = TRY(series_.append(batch));
    answer = answer_of(appended, batch);
    counters.points += answer.stored;
    counters.refused += answer.rejected;
    PointsWriter latest(columns.node, counters, limits_);
    for (std::size_t metric = 0; metric < points.metrics.size(); ++metric)
      if (is_metric_name(points.metrics[metric], limits_))
        latest.add_latest_of(points.metrics[metric], points.rank, points.steps, times,
                             points.values[metric]);
    TRY(latest.save_latest(database_));
    TRY(save(database_, counters));
    const auto newest = std::ranges::max_element(points.steps) - points.steps.begin();
    const spool::TelemetryItem step{.kind = spool::TelemetryKind::metrics,
                                    .rank = points.rank,
                                    .step = points.steps[static_cast<std::size_t>(newest)],
                                    .time = times[static_cast<std::size_t>(newest)]};
    return put_step_from_metrics(columns.node.id, {&step, 1});
  }));
  received_.points += answer.stored;
  return answer;
}

}  // namespace lockstep::insight
