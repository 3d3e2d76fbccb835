#include "platform/insight/detail/points.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "base/format.h"

namespace lockstep::insight {
namespace {

using Int = std::int64_t;
using Real = std::optional<double>;

constexpr int kShift = 4;  // a block is 16 of the level below
constexpr int kLevels = 4;
constexpr Int kPendingMax = 64;
// Points of one series that one call summarizes; summarize_some() continues with the rest.
constexpr Int kSummarizeAtOnce = 1024;
// Minimum number of rows that may be read, even if few points are requested.
constexpr Int kRowsAlways = 64;
constexpr Int kStepMin = std::numeric_limits<Int>::min();
constexpr Int kStepMax = std::numeric_limits<Int>::max();

// The reverse of value_of() in points.h.
Real sql_value(double value) { return std::isnan(value) ? std::nullopt : Real(value); }

api::Point point_of(Int step, Time time, Real value) { return {step, time, value_of(value)}; }

// Points from `first` to `last`, both included.
Result<std::vector<api::Point>> points_between(store::Database& database, Int series, Int first,
                                               Int last, Int most = kStepMax) {
  std::vector<api::Point> points;
  for (const auto& [step, time, value] : TRY(database.rows<Int, Time, Real>(
           "select step, time, value from points where series = :series and "
           "step between :first and :last order by step limit :most",
           series, first, last, most)))
    points.push_back(point_of(step, time, value));
  return points;
}

struct SummaryRow {
  Int place = 0;  // number of the block within its level
  RangeSummary summary;
};

// Blocks from `first` to `last`, both included.
Result<std::vector<SummaryRow>> summaries_between(store::Database& database, Int series, int level,
                                                  Int first, Int last) {
  using MaybeInt = std::optional<Int>;
  using MaybeTime = std::optional<Time>;
  std::vector<SummaryRow> all;
  for (const auto& [place, count, first_step, first_time, first_value, last_step, last_time,
                    last_value, min_step, min_time, min_value, max_step, max_time, max_value,
                    nan_step, nan_time] :
       TRY(database.rows<Int, Int, Int, Time, Real, Int, Time, Real, MaybeInt, MaybeTime, Real,
                         MaybeInt, MaybeTime, Real, MaybeInt, MaybeTime>(
           "select place, count, first_step, first_time, first_value, last_step, last_time, "
           "last_value, min_step, min_time, min_value, max_step, max_time, max_value, nan_step, "
           "nan_time from summaries where series = :series and level = :level and "
           "place between :first and :last order by place",
           series, level, first, last))) {
    RangeSummary piece{.count = count,
                       .first = point_of(first_step, first_time, first_value),
                       .last = point_of(last_step, last_time, last_value),
                       .min = {},
                       .max = {},
                       .nan = {}};
    if (min_step) piece.min = point_of(*min_step, min_time.value_or(Time{}), min_value);
    if (max_step) piece.max = point_of(*max_step, max_time.value_or(Time{}), max_value);
    if (nan_step) piece.nan = point_of(*nan_step, nan_time.value_or(Time{}), std::nullopt);
    all.push_back({place, piece});
  }
  return all;
}

std::optional<Int> step_of(const std::optional<api::Point>& point) {
  return point ? std::optional(point->step) : std::nullopt;
}
std::optional<Time> time_of(const std::optional<api::Point>& point) {
  return point ? std::optional(point->time) : std::nullopt;
}
Real sql_value(const std::optional<api::Point>& point) {
  return point ? sql_value(point->value) : std::nullopt;
}

Result<void> put_summary(store::Database& database, Int series, int level, Int place,
                         const RangeSummary& piece) {
  return database.execute(
      "insert or replace into summaries (series, level, place, count, first_step, first_time, "
      "first_value, last_step, last_time, last_value, min_step, min_time, min_value, max_step, "
      "max_time, max_value, nan_step, nan_time) values (:series, :level, :place, :count, "
      ":first_step, :first_time, :first_value, :last_step, :last_time, :last_value, :min_step, "
      ":min_time, :min_value, :max_step, :max_time, :max_value, :nan_step, :nan_time)",
      series, level, place, piece.count, piece.first.step, piece.first.time,
      sql_value(piece.first.value), piece.last.step, piece.last.time, sql_value(piece.last.value),
      step_of(piece.min), time_of(piece.min), sql_value(piece.min), step_of(piece.max),
      time_of(piece.max), sql_value(piece.max), step_of(piece.nan), time_of(piece.nan));
}

Int first_of(Int place) { return place << kShift; }
Int last_of(Int place) { return (place << kShift) + ((1 << kShift) - 1); }

// The summary of a block, from the level below.
Result<RangeSummary> summary_of_level_below(store::Database& database, Int series, int level,
                                            Int place) {
  RangeSummary piece;
  if (level == 1) {
    for (const api::Point& point :
         TRY(points_between(database, series, first_of(place), last_of(place))))
      append_range(piece, summary_of_point(point));
    return piece;
  }
  for (const SummaryRow& summary :
       TRY(summaries_between(database, series, level - 1, first_of(place), last_of(place))))
    append_range(piece, summary.summary);
  return piece;
}

// Rebuilds these blocks of level 1, and those above them, from the level below.
Result<void> rebuild(store::Database& database, Int series, std::set<Int> places) {
  for (int level = 1; level <= kLevels; ++level) {
    std::set<Int> above;
    for (Int place : places) {
      TRY(put_summary(database, series, level, place,
                      TRY(summary_of_level_below(database, series, level, place))));
      above.insert(place >> kShift);
    }
    places = std::move(above);
  }
  return {};
}

// Summarizes pending points, except the last block, which may still get points.
Result<void> summarize(store::Database& database, SeriesRow& row) {
  const auto points = TRY(points_between(database, row.id, row.summarized.value_or(kStepMin),
                                         kStepMax, kSummarizeAtOnce));
  const auto found = static_cast<Int>(points.size());
  const Int behind = std::max<Int>(0, row.pending - found);  // not read: too many
  if (points.empty() || found < kPendingMax) {
    row.pending = found;
    return {};
  }
  const Int open = points.back().step >> kShift;
  std::set<Int> places;
  for (const api::Point& point : points)
    if (point.step >> kShift < open) places.insert(point.step >> kShift);
  const auto left = std::ranges::count_if(
      points, [&](const api::Point& point) { return point.step >> kShift == open; });
  TRY(rebuild(database, row.id, std::move(places)));
  row.summarized = first_of(open);
  row.pending = left + (found == kSummarizeAtOnce ? behind : 0);
  return {};
}

Result<void> save(store::Database& database, const SeriesRow& row) {
  return database.execute(
      "update series set epoch = :epoch, step = :step, time = :time, value = :value, "
      "summarized = :summarized, pending = :pending, removed = 0 where id = :id",
      row.epoch, row.latest.step, row.latest.time, sql_value(row.latest.value), row.summarized,
      row.pending, row.id);
}

using RawSeries = std::tuple<Int, std::string, int, Int, Int, Time, Real, std::optional<Int>, Int>;

SeriesRow row_of(RawSeries raw) {
  auto& [id, name, rank, epoch, step, time, value, summarized, pending] = raw;
  return {.id = id,
          .name = std::move(name),
          .rank = rank,
          .epoch = epoch,
          .latest = point_of(step, time, value),
          .summarized = summarized,
          .pending = pending,
          .stale = {}};
}

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

}  // namespace

// --- Writing ---

Result<void> PointsWriter::add(const spool::TelemetryItem& item) {
  Int number = 0;
  for (const auto& [name, value] : item.values) {
    if (++number > limits_.values)
      reject(item, name, format("one call may log {} metrics", limits_.values));
    else if (name.empty() || name.size() > limits_.name || !is_plain(name))
      reject(item, name,
             format("a name has 1 to {} bytes, none of them control characters", limits_.name));
    else
      TRY(add(item, name, value));
  }
  return {};
}

Result<void> PointsWriter::add(const spool::TelemetryItem& item, const std::string& name,
                               double value) {
  SeriesRow* row = TRY(series_of(name, item.rank));
  if (row == nullptr) {
    reject(item, name, format("a run may have {} series", limits_.series));
    return {};
  }
  const api::Point point{item.step, item.time, value};
  if (std::pair(epoch_, point.step) >= std::pair(row->epoch, row->latest.step)) {
    row->epoch = epoch_;
    row->latest = point;
  }
  ++tally_.points;
  if (row->summarized && point.step < *row->summarized)
    row->stale.insert(point.step >> kShift);
  else
    ++row->pending;
  return database_.execute(
      "insert into points (series, step, epoch, time, value) values (:series, :step, :epoch, "
      ":time, :value) on conflict do update set epoch = excluded.epoch, time = excluded.time, "
      "value = excluded.value where excluded.epoch >= epoch",
      row->id, point.step, epoch_, point.time, sql_value(value));
}

Result<SeriesRow*> PointsWriter::series_of(const std::string& name, int rank) {
  if (const auto known = series_.find({name, rank}); known != series_.end()) return &known->second;
  constexpr std::string_view kFind =
      "select id, name, rank, epoch, step, time, value, summarized, pending from series where "
      "project = :project and number = :number and name = :name and rank = :rank";
  const auto find = [&] {
    return database_.rows<Int, std::string, int, Int, Int, Time, Real, std::optional<Int>, Int>(
        kFind, run_.project, run_.number, name, rank);
  };
  auto found = TRY(find());
  if (found.empty()) {
    if (tally_.series >= limits_.series) return nullptr;
    TRY(database_.execute(
        "insert into series (project, number, name, rank, epoch, step, time, value) values "
        "(:project, :number, :name, :rank, 0, 0, 0, null)",
        run_.project, run_.number, name, rank));
    ++tally_.series;
    found = TRY(find());
  }
  return &series_.emplace(std::pair(name, rank), row_of(std::move(found.at(0)))).first->second;
}

void PointsWriter::reject(const spool::TelemetryItem& item, std::string_view name,
                          std::string_view why) {
  if (!is_power_of_ten(++tally_.refused)) return;
  rejection_note_ = format(
      "[lockstep: {} values of metrics were not stored in this run; the latest is "
      "\"{}\" at step {}: {}]",
      tally_.refused, brief_name(name), item.step, why);
}

Result<void> PointsWriter::finish() {
  for (auto& [key, row] : series_) {
    TRY(rebuild(database_, row.id, std::move(row.stale)));
    if (row.pending >= kPendingMax) TRY(summarize(database_, row));
    TRY(save(database_, row));
  }
  return {};
}

Result<bool> summarize_some(store::Database& database) {
  auto waiting =
      TRY((database.rows<Int, std::string, int, Int, Int, Time, Real, std::optional<Int>, Int>(
          "select id, name, rank, epoch, step, time, value, summarized, pending from series "
          "where pending >= 64 limit 1")));
  if (waiting.empty()) return false;
  SeriesRow row = row_of(std::move(waiting[0]));
  TRY(database.transaction([&]() -> Result<void> {
    TRY(summarize(database, row));
    return save(database, row);
  }));
  return true;
}

// --- Removing ---

namespace {

// True once nothing of the series is left; else at most so many rows of each table are removed.
Result<bool> remove_points_of(store::Database& database, Int series, Int most) {
  TRY(
      database.execute("delete from points where series = :series and step in "
                       "(select step from points where series = :same limit :most)",
                       series, series, most));
  TRY(database.execute(
      "delete from summaries where (series, level, place) in "
      "(select series, level, place from summaries where series = :series limit :most)",
      series, most));
  const auto left =
      TRY(database.rows<Int>("select exists (select 1 from points where series = :series) or "
                             "exists (select 1 from summaries where series = :same)",
                             series, series));
  return std::get<0>(left[0]) == 0;
}

}  // namespace

Result<bool> remove_points(store::Database& database, const model::RunId& run, std::int64_t most) {
  constexpr Int kSeriesAtOnce = 64;
  const auto series = TRY(database.rows<Int>(
      "select id from series where project = :project and number = :number and removed = 0 "
      "limit :most",
      run.project, run.number, kSeriesAtOnce));
  const Int share = std::max<Int>(16, most / std::max<Int>(1, std::ssize(series)));
  for (const auto& [id] : series)
    if (TRY(remove_points_of(database, id, share)))
      TRY(database.execute(
          "update series set removed = 1, summarized = null, pending = 0 where id = :id", id));
  return !series.empty();
}

// --- Reading ---

Result<std::vector<SeriesRow>> find_series(store::Database& database, const model::RunId& run,
                                           const SeriesQuery& query, std::int64_t most) {
  std::vector<SeriesRow> rows;
  for (auto& raw :
       TRY((database.rows<Int, std::string, int, Int, Int, Time, Real, std::optional<Int>, Int>(
           "select id, name, rank, epoch, step, time, value, summarized, pending from series "
           "where project = :project and number = :number and (:any_name or name = :name) and "
           "(:any_rank or rank = :rank) order by name, rank limit :most",
           run.project, run.number, !query.name, query.name.value_or(""), !query.rank,
           query.rank.value_or(0), most))))
    rows.push_back(row_of(std::move(raw)));
  return rows;
}

Result<std::int64_t> count_series(store::Database& database, const model::RunId& run,
                                  const SeriesQuery& query) {
  const auto rows = TRY(database.rows<Int>(
      "select count(*) from series where project = :project and number = :number and "
      "(:any_name or name = :name) and (:any_rank or rank = :rank)",
      run.project, run.number, !query.name, query.name.value_or(""), !query.rank,
      query.rank.value_or(0)));
  return std::get<0>(rows[0]);
}

namespace {

// The finest level with at most `most` rows after `after`.
Result<int> level_for(store::Database& database, Int series, Int after, Int most) {
  const auto few = [&](const std::vector<std::tuple<Int>>& count) {
    return std::get<0>(count[0]) <= most;
  };
  if (few(TRY(database.rows<Int>("select count(*) from (select 1 from points where "
                                 "series = :series and step > :after limit :most)",
                                 series, after, most + 1))))
    return 0;
  for (int level = 1; level < kLevels; ++level)
    if (few(TRY(database.rows<Int>(
            "select count(*) from (select 1 from summaries where series = :series and "
            "level = :level and place > :place limit :most)",
            series, level, after >> (kShift * level), most + 1))))
      return level;
  return kLevels;
}

Result<void> add_points(store::Database& database, Int series, Int first, Int last,
                        std::vector<RangeSummary>& pieces) {
  if (first > last) return {};
  for (const api::Point& point : TRY(points_between(database, series, first, last)))
    pieces.push_back(summary_of_point(point));
  return {};
}

Result<void> add_summaries(store::Database& database, Int series, int level, Int first, Int last,
                           std::vector<RangeSummary>& pieces) {
  for (const SummaryRow& summary : TRY(summaries_between(database, series, level, first, last)))
    pieces.push_back(summary.summary);
  return {};
}

// The steps after `after` (not the last possible step), in blocks of that level; for the block that
// contains `after`, in blocks of the levels below.
Result<std::vector<RangeSummary>> summaries_after(store::Database& database, const SeriesRow& row,
                                                  Int after, int level) {
  std::vector<RangeSummary> pieces;
  const Int summarized = row.summarized.value_or(kStepMin);
  const auto place = [&](int of_level) { return after >> (kShift * of_level); };
  if (level == 0 || after >= summarized) {
    TRY(add_points(database, row.id, after + 1, kStepMax, pieces));
    return pieces;
  }
  TRY(add_points(database, row.id, after + 1, last_of(place(1)), pieces));
  for (int below = 1; below < level; ++below)
    TRY(add_summaries(database, row.id, below, place(below) + 1, last_of(place(below + 1)),
                      pieces));
  TRY(add_summaries(database, row.id, level, place(level) + 1, kStepMax, pieces));
  TRY(add_points(database, row.id, summarized, kStepMax, pieces));
  return pieces;
}

}  // namespace

Result<api::Series> points_of(store::Database& database, const SeriesRow& row, std::int64_t after,
                              std::int64_t most) {
  api::Series series{.name = row.name, .rank = row.rank, .points = {}, .total = 0};
  if (after == kStepMax) return series;
  const int level = TRY(level_for(database, row.id, after, std::max(most, kRowsAlways)));
  const auto pieces = TRY(summaries_after(database, row, after, level));
  for (const RangeSummary& piece : pieces) series.total += piece.count;
  if (series.total > 0) series.points = downsample(pieces, most);
  series.downsampled = series.total > static_cast<std::int64_t>(series.points.size());
  return series;
}

}  // namespace lockstep::insight
