// Queries of stored data.
#include <algorithm>
#include <limits>

#include "platform/insight/detail/line_search.h"
#include "platform/insight/detail/lines.h"
#include "platform/insight/detail/points.h"
#include "platform/insight/detail/run_counters.h"
#include "platform/insight/insight.h"
#include "text/json.h"

namespace lockstep::insight {
namespace {

using Int = std::int64_t;
using Text = std::string;

// In one answer: each costs some ten microseconds, even with few points.
constexpr Int kSeriesMax = 1000;
constexpr Int kPointsMax = 1'000'000;
constexpr Int kPixelsOfAllMax = 100'000;  // of all series
constexpr Int kNamesMax = 1000;           // of a run
constexpr Int kLatestMax = 20'000;        // of all runs
constexpr Int kCheckpointsMax = 1000;

// The points of each series, or its pixels.
Int share_of(const SeriesQuery& query, Int most, Int series) {
  if (!query.pixels) return most / series;
  return std::clamp<Int>(kPixelsOfAllMax / series, 1, *query.pixels);
}

// [["demo",1],["demo",2]], which SQL reads as a table: a statement has a fixed number of
// parameters.
std::string json_of(std::span<const model::RunId> runs) {
  Json all = Json::array();
  for (const model::RunId& run : runs) all.push_back(Json::array({run.project, run.number}));
  return dump_json(all);
}

}  // namespace

Result<Lines> Insight::log(const model::RunId& run, const LogQuery& query) {
  const auto counters = TRY(find_counters(database_, run));
  return counters ? lines_after(database_, *counters, query) : Lines{};
}

Result<std::vector<api::LogLine>> Insight::log_tail(const model::RunId& run, std::int64_t lines,
                                                    std::optional<int> rank) {
  const auto counters = TRY(find_counters(database_, run));
  return counters ? lines_before(database_, *counters,
                                 {.before = counters->next, .lines = lines, .rank = rank})
                  : std::vector<api::LogLine>();
}

Result<api::LogMatches> Insight::search(const model::RunId& run, const LogSearch& search) {
  const auto counters = TRY(find_counters(database_, run));
  if (!counters) return api::LogMatches{.next = search.after, .ended = true};
  return search_lines(database_, *counters, search);
}

Result<std::vector<std::string>> Insight::last_of_rank(const model::AttemptId& attempt, int rank) {
  const auto counters = TRY(find_counters(database_, attempt.run));
  if (!counters) return std::vector<std::string>();
  return last_lines_of_rank(database_, *counters, attempt.epoch, rank);
}

Result<api::SeriesList> Insight::series(const model::RunId& run, const SeriesQuery& query) {
  const Int most = std::clamp<Int>(query.points, 1, kPointsMax);
  api::SeriesList page;
  const auto counters = TRY(find_counters(database_, run));
  if (!counters) return page;
  const model::RunId stored = series_run(*counters, run);
  const Int series_max = std::min(kSeriesMax, most);
  const bool aggregate = query.aggregate && !query.rank && !query.node;
  FoundMetrics found;
  if (aggregate)
    found = TRY(find_metrics(series_, stored, query, series_max));
  else
    found.others = TRY(find_series(series_, stored, query, series_max));
  const Int shown =
      std::ssize(found.others.series) + kStatisticsShown * std::ssize(found.of_several);
  page.left_out = found.others.total - shown;
  const Int share = share_of(query, most, std::max<Int>(1, shown));
  for (const std::string& metric : found.of_several)
    for (api::Series& series : TRY(statistics_of(series_, stored, metric, query, share)))
      page.series.push_back(std::move(series));
  for (const SeriesLatest& one : found.others.series) {
    api::Series series = TRY(points_of(series_, stored, one.series, query, share));
    if (series.total > 0) page.series.push_back(std::move(series));
  }
  std::ranges::stable_sort(page.series, {}, &api::Series::name);
  page.removed = counters->points_removed;
  if (query.rank && page.series.empty())
    page.ranks_removed = TRY(has_removed_ranks(series_, stored, query));
  return page;
}

Result<std::map<model::RunId, RunSummary>> Insight::summaries(std::span<const model::RunId> runs) {
  std::map<model::RunId, RunSummary> summaries;
  for (const model::RunId& run : runs) summaries.try_emplace(run);
  const std::string wanted = json_of(runs);
  TRY(add_progress(wanted, summaries));
  TRY(add_latest(wanted, summaries));
  return summaries;
}

Result<RunSummary> Insight::summary(const model::RunId& run) {
  return std::move(TRY(summaries({&run, 1})).at(run));
}

// `wanted`: json_of() the runs. `cross join` keeps its order: one lookup for each of them.
Result<void> Insight::add_progress(const std::string& wanted,
                                   std::map<model::RunId, RunSummary>& summaries) {
  for (const auto& [project, number, step, steps, time] :
       TRY(database_.rows<Text, Int, Int, Int, Time>(
           "select p.project, p.number, p.step, p.steps, p.time from "
           "json_each(:runs) as wanted cross join progress as p on "
           "p.project = wanted.value ->> 0 and p.number = wanted.value ->> 1",
           wanted)))
    summaries.at({project, number}).progress = {.step = step, .steps = steps, .time = time};
  return {};
}

Result<std::vector<MetricPoint>> Insight::history(const model::RunId& run,
                                                  const std::string& metric, HistoryCursor& cursor,
                                                  Int most) {
  cursor.ended = true;
  const auto logged = TRY(
      database_.rows<int>("select rank from latest_metrics where project = :project and number = "
                          ":number and name = :name",
                          run.project, run.number, metric));
  const auto counters = TRY(find_counters(database_, run));
  if (logged.empty() || !counters) return std::vector<MetricPoint>();
  const auto page =
      TRY(series_.points({.run = series_run(*counters, run),
                          .series = {.metric = metric, .index = std::get<0>(logged.front())},
                          .epoch = std::nullopt,
                          .range = {},
                          .from = {.epoch = cursor.epoch, .step = cursor.step, .skip = cursor.skip},
                          .most = most}));
  std::vector<MetricPoint> points;
  for (const AttemptPoint& one : page.points)
    points.push_back({one.point.step, one.point.time, one.point.value});
  if (page.next)
    cursor = {.epoch = page.next->epoch, .step = page.next->step, .skip = page.next->skip};
  return points;
}

Result<void> Insight::add_latest(const std::string& wanted,
                                 std::map<model::RunId, RunSummary>& summaries) {
  const Int share = kLatestMax / std::max<Int>(1, std::ssize(summaries));
  for (auto& [project, number, name, value] :
       TRY((database_.rows<Text, Int, Text, std::optional<double>>(
           "select project, number, name, value from (select l.project, l.number, l.name, l.value, "
           "row_number() over (partition by l.project, l.number order by l.name) as place "
           "from json_each(:runs) as wanted cross join latest_metrics as l on "
           "l.project = wanted.value ->> 0 and l.number = wanted.value ->> 1) where place <= :most",
           wanted, std::clamp<Int>(share, 1, kNamesMax)))))
    summaries.at({project, number})
        .latest.emplace(std::move(name), value.value_or(std::numeric_limits<double>::quiet_NaN()));
  return {};
}

Result<std::vector<store::RankedRun>> Insight::ranked_runs(const model::RunFilter& filter,
                                                           const store::MetricOrder& order) {
  return store::ranked_runs(database_, filter, order);
}

Result<std::vector<api::Checkpoint>> Insight::checkpoints(const model::RunId& run) {
  std::vector<api::Checkpoint> newest_first;
  for (auto& [step, epoch, path, time] : TRY(database_.rows<Int, Int, Text, Time>(
           "select step, epoch, path, time from checkpoints where project = :project and "
           "number = :number order by step desc limit :most",
           run.project, run.number, kCheckpointsMax)))
    newest_first.push_back({step, epoch, std::move(path), time});
  std::ranges::reverse(newest_first);
  return newest_first;
}

}  // namespace lockstep::insight
