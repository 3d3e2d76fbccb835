#include "platform/insight/detail/points.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "base/format.h"

namespace lockstep::insight {
namespace {

using Int = std::int64_t;
using Real = std::optional<double>;

constexpr Int kStepMax = std::numeric_limits<Int>::max();
// A curve has at most five points for each pixel.
constexpr Int kPointsPerPixel = 5;
constexpr Int kPixelsMax = 100'000;
constexpr Int kSeriesAtOnce = 10'000;
constexpr Int kOldPointsAtOnce = 4096;

// SQLite has no NaN: it is stored as NULL.
Real sql_value(double value) { return std::isnan(value) ? std::nullopt : Real(value); }
double value_of(const Real& sql) { return sql.value_or(std::numeric_limits<double>::quiet_NaN()); }

bool is_plain(std::string_view name) {
  return std::ranges::none_of(name, [](char c) { return (c >= 0 && c < ' ') || c == '\x7f'; });
}

bool is_power_of_ten(Int number) {
  while (number > 1 && number % 10 == 0) number /= 10;
  return number == 1;
}

std::string brief_name(std::string_view name) {
  std::string shown;
  for (char c : name.substr(0, 40)) shown += c >= ' ' && c <= '~' ? c : '?';
  return name.size() > 40 ? shown + "..." : shown;
}

bool is_extreme_of_minutes(RunPart part) {
  return part == RunPart::node_min || part == RunPart::node_max;
}

bool matches(const SeriesKey& key, const SeriesQuery& query) {
  if (query.name && key.metric != *query.name) return false;
  if (query.node)
    return key.index == *query.node &&
           (key.part == RunPart::node || (query.minutes && is_extreme_of_minutes(key.part)));
  return key.part == RunPart::rank && (!query.rank || key.index == *query.rank);
}

}  // namespace

bool is_metric_name(std::string_view name, const Limits& limits) {
  return !name.empty() && name.size() <= limits.name && is_plain(name);
}

// --- Writing ---

void PointsWriter::add(const spool::TelemetryItem& item) {
  Int number = 0;
  for (const auto& [name, value] : item.values) {
    if (++number > limits_.values)
      reject(item.step, name, format("one call may log {} metrics", limits_.values));
    else if (!is_metric_name(name, limits_))
      reject(item.step, name,
             format("a name has 1 to {} bytes, none of them control characters", limits_.name));
    else
      add(item, name, value);
  }
  batch_.sequence = item.sequence;
}

void PointsWriter::add_latest(const spool::TelemetryItem& item) {
  for (const auto& [name, value] : item.values)
    if (is_metric_name(name, limits_)) set_latest(item, name, value);
}

void PointsWriter::add(const spool::TelemetryItem& item, const std::string& name, double value) {
  const SeriesKey key = key_of(item, name);
  const auto [known, is_new] =
      series_.try_emplace(key, static_cast<std::uint32_t>(batch_.series.size()));
  if (is_new) batch_.series.push_back(key);
  batch_.points.push_back({known->second, {item.step, item.time, value}});
  set_latest(item, name, value);
}

SeriesKey PointsWriter::key_of(const spool::TelemetryItem& item, const std::string& name) const {
  if (item.kind == spool::TelemetryKind::telemetry)
    return {.metric = name, .part = RunPart::node, .index = node_.id.index};
  return {.metric = name, .part = RunPart::rank, .index = item.rank};
}

void PointsWriter::set_latest(const spool::TelemetryItem& item, const std::string& name,
                              double value) {
  if (item.kind == spool::TelemetryKind::telemetry) return;
  const SeriesPoint point{item.step, item.time, value};
  const Latest first{item.rank, point, value, value};
  const auto [found, is_first] = latest_.try_emplace(name, first);
  Latest& latest = found->second;
  if (is_first || item.rank > latest.rank) return;
  if (item.rank < latest.rank)
    latest = first;
  else
    latest.add(point);
}

// One look-up for each series, because there may be a million points.
void PointsWriter::add_latest(const PointBatch& batch) {
  std::vector<std::optional<Latest>> of_series(batch.series.size());
  for (const auto& [series, point] : batch.points) {
    const SeriesKey& key = batch.series[series];
    if (!is_metric_name(key.metric, limits_)) continue;
    std::optional<Latest>& latest = of_series[series];
    if (latest)
      latest->add(point);
    else
      latest = Latest{key.index, point, point.value, point.value};
  }
  for (std::size_t i = 0; i < of_series.size(); ++i) {
    if (!of_series[i]) continue;
    const auto [found, is_first] = latest_.try_emplace(batch.series[i].metric, *of_series[i]);
    if (!is_first && of_series[i]->rank < found->second.rank) found->second = *of_series[i];
  }
}

void PointsWriter::Latest::add(const SeriesPoint& newer) {
  if (newer.step >= point.step) point = newer;
  least = std::fmin(least, newer.value);
  greatest = std::fmax(greatest, newer.value);
}

Result<void> PointsWriter::store(SeriesStore& series) {
  if (batch_.points.empty()) return {};
  const auto appending = series.append(batch_);
  if (!appending) {
    counters_.refused = refused_before_;
    rejection_note_.clear();
    return appending.error();
  }
  const Appended& appended = *appending;
  counters_.points += static_cast<Int>(appended.stored);
  for (const RejectedPoint& rejected : appended.reasons) {
    const PointBatch::Point& point = batch_.points[rejected.index];
    reject(point.point.step, batch_.series[point.series].metric, rejected.reason);
  }
  counters_.refused += static_cast<Int>(appended.rejected - appended.reasons.size());
  return {};
}

namespace {

// The lowest rank counts; of its values the last one of its newest attempt, and the extremes of
// all.
constexpr std::string_view kSaveLatest = R"(
  insert into latest_metrics
    (project, number, name, rank, epoch, step, time, value, least, greatest)
  values (:project, :number, :name, :rank, :epoch, :step, :time, :value, :least, :greatest)
  on conflict do update set
    rank = excluded.rank,
    epoch = iif(excluded.rank < rank, excluded.epoch, max(epoch, excluded.epoch)),
    (step, time, value) = (
      select iif(later, excluded.step, step), iif(later, excluded.time, time),
             iif(later, excluded.value, value)
      from (select excluded.rank < rank or (excluded.epoch, excluded.step) >= (epoch, step)
            as later)),
    least = iif(excluded.rank < rank, excluded.least,
                coalesce(min(least, excluded.least), least, excluded.least)),
    greatest = iif(excluded.rank < rank, excluded.greatest,
                   coalesce(max(greatest, excluded.greatest), greatest, excluded.greatest))
  where excluded.rank <= rank)";

}  // namespace

Result<void> PointsWriter::save_latest(store::Database& database) {
  for (const auto& [name, latest] : latest_)
    TRY(database.execute(kSaveLatest, node_.id.attempt.run.project, node_.id.attempt.run.number,
                         name, latest.rank, node_.id.attempt.epoch, latest.point.step,
                         latest.point.time, sql_value(latest.point.value), sql_value(latest.least),
                         sql_value(latest.greatest)));
  return {};
}

void PointsWriter::reject(Int step, std::string_view name, std::string_view why) {
  if (!is_power_of_ten(++counters_.refused)) return;
  rejection_note_ = format(
      "[lockstep: {} values of metrics were not stored in this run; the latest is "
      "\"{}\" at step {}: {}]",
      counters_.refused, brief_name(name), step, why);
}

// --- Reading ---

Result<FoundSeries> find_series(SeriesStore& store, const model::RunId& run,
                                const SeriesQuery& query, std::int64_t most) {
  FoundSeries found;
  std::optional<SeriesKey> after;
  if (query.name) after = SeriesKey{.metric = *query.name, .part = RunPart::rank, .index = -1};
  for (bool more = true; more;) {
    LatestPage page = TRY(store.latest(run, after, kSeriesAtOnce));
    more = page.more && !page.series.empty();
    if (more) after = page.series.back().series;
    for (SeriesLatest& one : page.series) {
      if (query.name && one.series.metric != *query.name) return found;
      if (!matches(one.series, query) || one.count == 0) continue;
      if (++found.total <= most) found.series.push_back(std::move(one));
    }
  }
  return found;
}

Result<FoundMetrics> find_metrics(SeriesStore& store, const model::RunId& run,
                                  const SeriesQuery& query, std::int64_t most) {
  FoundMetrics found;
  for (MetricRanks& ranks : TRY(store.metrics(run))) {
    if (!ranks.first || (query.name && *query.name != ranks.metric)) continue;
    const Int series = ranks.several ? kStatisticsShown : 1;
    found.others.total += series;
    if (found.others.total > most) continue;
    if (ranks.several)
      found.of_several.push_back(std::move(ranks.metric));
    else
      found.others.series.push_back(
          {.series = {std::move(ranks.metric), RunPart::rank, *ranks.first}, .point = {}});
  }
  return found;
}

namespace {

// For each step the value of the newest attempt.
Result<std::vector<SeriesPoint>> all_points_of(SeriesStore& store, const CurveQuery& query) {
  std::map<Int, SeriesPoint> newest;
  PointsQuery pages{
      .run = query.run, .series = query.series, .epoch = query.epoch, .range = query.range};
  for (std::optional<PointCursor> from = PointCursor{}; from;) {
    pages.from = *from;
    PointsPage page = TRY(store.points(pages));
    for (const AttemptPoint& one : page.points) newest[one.point.step] = one.point;  // by attempt
    from = page.next;
  }
  std::vector<SeriesPoint> points;
  for (const auto& [step, point] : newest) points.push_back(point);
  return points;
}

// At most `most` points, and all that there are if they are no more.
Result<Curve> curve_of_points(SeriesStore& store, CurveQuery query, Int most) {
  query.pixels = std::min(kPixelsMax, most);
  Curve curve = TRY(store.curve(query));
  if (curve.downsampled && curve.total <= most) {
    curve.points = TRY(all_points_of(store, query));
    curve.total = std::ssize(curve.points);
    return curve;
  }
  // Fewer pixels, if each of them took several points.
  if (static_cast<Int>(curve.points.size()) > most) {
    query.pixels = std::max<Int>(1, most / kPointsPerPixel);
    curve = TRY(store.curve(query));
  }
  if (static_cast<Int>(curve.points.size()) > most) {
    curve.points[static_cast<std::size_t>(most) - 1] = curve.points.back();
    curve.points.resize(static_cast<std::size_t>(most));
  }
  return curve;
}

}  // namespace

Result<api::Series> points_of(SeriesStore& store, const model::RunId& run, const SeriesKey& series,
                              const SeriesQuery& wanted, Int share) {
  const bool is_of_node = series.part == RunPart::node || is_extreme_of_minutes(series.part);
  api::Series answer{.name = series.metric,
                     .rank = is_of_node ? 0 : series.index,
                     .points = {},
                     .total = 0,
                     .node = is_of_node ? std::optional<int>(series.index) : std::nullopt};
  if (is_extreme_of_minutes(series.part))
    answer.statistic =
        series.part == RunPart::node_min ? api::SeriesStatistic::min : api::SeriesStatistic::max;
  if (wanted.after_step == kStepMax) return answer;
  CurveQuery query{.run = run, .series = series, .epoch = wanted.epoch, .range = {}};
  if (wanted.after_step) query.range.first = *wanted.after_step + 1;
  query.pixels = share;
  const Curve curve =
      wanted.pixels ? TRY(store.curve(query)) : TRY(curve_of_points(store, query, share));
  for (const SeriesPoint& point : curve.points)
    answer.points.push_back({point.step, point.time, point.value});
  answer.total = curve.total;
  answer.downsampled = answer.total > static_cast<Int>(answer.points.size());
  return answer;
}

Result<bool> has_removed_ranks(SeriesStore& store, const model::RunId& run,
                               const SeriesQuery& query) {
  constexpr Int kMetricsTested = 10;
  Int tested = 0;
  for (const MetricRanks& ranks : TRY(store.metrics(run))) {
    if (!ranks.several || (query.name && *query.name != ranks.metric)) continue;
    if (++tested > kMetricsTested) return false;
    const SeriesKey counts{ranks.metric, RunPart::all_ranks,
                           static_cast<std::int32_t>(Statistic::ranks)};
    const Curve most =
        TRY(store.curve({.run = run, .series = counts, .epoch = {}, .range = {}, .pixels = 1}));
    double logged = 0;
    for (const SeriesPoint& point : most.points) logged = std::max(logged, point.value);
    const SeriesQuery of_metric{.name = ranks.metric};
    const auto left = TRY(find_series(store, run, of_metric, 1));
    if (static_cast<double>(left.total) < logged) return true;
  }
  return false;
}

namespace {

Int most_points(const RankCurves& curves) {
  Int most = 0;
  for (const Curve* curve : {&curves.mean, &curves.min, &curves.max, &curves.spread})
    most = std::max<Int>(most, std::ssize(curve->points));
  return most;
}

}  // namespace

Result<std::vector<api::Series>> statistics_of(SeriesStore& store, const model::RunId& run,
                                               const std::string& metric, const SeriesQuery& wanted,
                                               Int share) {
  std::vector<api::Series> all;
  if (wanted.after_step == kStepMax) return all;
  CurveQuery query{.run = run, .series = {metric}, .epoch = wanted.epoch, .range = {}};
  if (wanted.after_step) query.range.first = *wanted.after_step + 1;
  query.pixels = wanted.pixels ? share : std::min(kPixelsMax, share);
  RankCurves curves = TRY(store.rank_curves(query));
  // Fewer pixels, if each of them took several points.
  if (!wanted.pixels && most_points(curves) > share) {
    query.pixels = std::max<Int>(1, share / kPointsPerPixel);
    curves = TRY(store.rank_curves(query));
  }
  using enum api::SeriesStatistic;
  const auto add = [&](api::SeriesStatistic statistic, const Curve& curve,
                       const std::vector<double>& ranks) {
    if (curve.total == 0) return;
    api::Series series{.name = metric,
                       .points = {},
                       .total = curve.total,
                       .downsampled = curve.total > std::ssize(curve.points),
                       .statistic = statistic};
    for (const SeriesPoint& point : curve.points)
      series.points.push_back({point.step, point.time, point.value});
    for (const double rank : ranks) series.point_ranks.push_back(static_cast<int>(rank));
    all.push_back(std::move(series));
  };
  add(mean, curves.mean, {});
  add(min, curves.min, curves.min_ranks);
  add(max, curves.max, curves.max_ranks);
  add(spread, curves.spread, {});
  return all;
}

// --- Points of earlier versions ---

namespace {

struct OldSeries {
  Int id = 0;
  model::RunId run;  // in the series store
  SeriesKey key;
};

struct OldPoints {
  std::map<Int, PointBatch> batches;  // by attempt
  Int last_step = 0;
  Int number = 0;
};

// Marks ascend while the rows of the series get fewer, and are the same if this is repeated.
Result<OldPoints> read_old_points(store::Database& database, const OldSeries& series) {
  const Int left = std::get<0>(
      TRY(database.rows<Int>("select count(*) from points where series = :series", series.id))[0]);
  OldPoints old;
  for (const auto& [step, epoch, time, value] : TRY((database.rows<Int, Int, Time, Real>(
           "select step, epoch, time, value from points where series = :series order by step "
           "limit :most",
           series.id, kOldPointsAtOnce)))) {
    PointBatch& batch = old.batches[epoch];
    batch.attempt = {series.run, epoch};
    batch.source = format("points/{}/{}", series.id, epoch);
    batch.sequence = kStepMax - left;
    batch.series = {series.key};
    batch.points.push_back({0, {step, time, value_of(value)}});
    old.last_step = step;
    ++old.number;
  }
  return old;
}

Result<void> remove_rows(store::Database& database, const OldSeries& series, const OldPoints& old) {
  return database.transaction([&]() -> Result<void> {
    TRY(database.execute("delete from points where series = :series and step <= :last", series.id,
                         old.last_step));
    if (old.number == kOldPointsAtOnce) return {};
    TRY(database.execute("delete from summaries where series = :series", series.id));
    return database.execute("delete from series where id = :series", series.id);
  });
}

}  // namespace

Result<bool> take_over_points(store::Database& database, SeriesStore& series) {
  auto found = TRY((database.rows<Int, std::string, Int, std::string, int>(
      "select id, project, number, name, rank from series limit 1")));
  if (found.empty()) return false;
  auto& [id, project, number, name, rank] = found[0];
  const model::RunId run{std::move(project), number};
  const RunCounters counters = TRY(find_or_create_counters(database, run, ""));
  const OldSeries old_series{
      .id = id,
      .run = series_run(counters, run),
      .key = {.metric = std::move(name), .part = RunPart::rank, .index = rank}};
  const OldPoints old = TRY(read_old_points(database, old_series));
  for (const auto& [epoch, batch] : old.batches) TRY(series.append(batch));
  TRY(remove_rows(database, old_series, old));
  return true;
}

Result<bool> remove_old_points(store::Database& database, const model::RunId& run,
                               std::int64_t most) {
  const auto found = TRY(database.rows<Int>(
      "select id from series where project = :project and number = :number limit 1", run.project,
      run.number));
  if (found.empty()) return false;
  const Int id = std::get<0>(found[0]);
  TRY(database.transaction([&]() -> Result<void> {
    TRY(
        database.execute("delete from points where series = :series and step in "
                         "(select step from points where series = :same order by step limit :most)",
                         id, id, most));
    TRY(database.execute("delete from summaries where series = :series", id));
    return database.execute(
        "delete from series where id = :series and not exists (select 1 from "
        "points where series = :same)",
        id, id);
  }));
  return true;
}

}  // namespace lockstep::insight
