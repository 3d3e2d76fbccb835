// Points: a series' values by step, and summaries of them, so that a query over a million steps
// reads thousands of rows.
//
// Method. Steps are grouped into blocks of 16, 256, 4,096 and 65,536 steps: levels 1 to 4. A row of
// `summaries` holds for one block the number of points, the first, the last, the minimum, the
// maximum and the first NaN. Steps of a series below `summarized` have summaries on all levels.
// Later points are read one by one, and are few: once 64 points are pending, all complete blocks of
// them are summarized. A point that comes late, or again in a later attempt, rebuilds its block on
// each level, from at most 16 rows each.
//
// Cost. About a microsecond for writing a point. A query reads from the finest level that has at
// most as many rows as requested points, and fewer than a hundred single points at the ends.
#pragma once

#include <limits>
#include <optional>
#include <set>
#include <string>
#include <utility>

#include "platform/insight/detail/range_summary.h"
#include "platform/insight/detail/run_counters.h"

namespace lockstep::insight {

// SQLite has no NaN: it is stored as NULL in columns of values, where NULL has no other meaning.
inline double value_of(const std::optional<double>& sql) {
  return sql.value_or(std::numeric_limits<double>::quiet_NaN());
}

// A row of the table `series`.
struct SeriesRow {
  std::int64_t id = 0;
  std::string name;
  int rank = 0;
  std::int64_t epoch = 0;  // epoch to value: the latest point, of the newest attempt
  api::Point latest;
  std::optional<std::int64_t> summarized;
  std::int64_t pending = 0;      // points from `summarized` on; may be slightly too high
  std::set<std::int64_t> stale;  // changed blocks of level 1; not in the table
};

// Writes the points of one call, within the caller's transaction.
class PointsWriter {
 public:
  PointsWriter(store::Database& database, const model::RunId& run, std::int64_t epoch,
               RunCounters& counters, const Limits& limits)
      : database_(database), run_(run), epoch_(epoch), tally_(counters), limits_(limits) {}

  // Values of earlier attempts override nothing. Values beyond a limit are counted in the counters,
  // and rejection_note() describes the latest of them.
  Result<void> add(const spool::TelemetryItem& item);
  // Writes the rows of the series and the summaries.
  Result<void> finish();

  // Empty, or a line for the run's log.
  const std::string& rejection_note() const { return rejection_note_; }

 private:
  Result<void> add(const spool::TelemetryItem& item, const std::string& name, double value);
  // Null for a new series beyond the limit.
  Result<SeriesRow*> series_of(const std::string& name, int rank);
  void reject(const spool::TelemetryItem& item, std::string_view name, std::string_view why);

  store::Database& database_;
  const model::RunId& run_;
  std::int64_t epoch_;
  RunCounters& tally_;
  const Limits& limits_;
  std::map<std::pair<std::string, int>, SeriesRow> series_;
  std::string rejection_note_;
};

// Summarizes some of the pending points (a very large call leaves some): true while there are more.
Result<bool> summarize_some(store::Database& database);

// Removes some of the points of the run's series, and their summaries; true while some are left.
Result<bool> remove_points(store::Database& database, const model::RunId& run, std::int64_t most);

// The run's series that match the query, by name and rank.
Result<std::vector<SeriesRow>> find_series(store::Database& database, const model::RunId& run,
                                           const SeriesQuery& query, std::int64_t most);
Result<std::int64_t> count_series(store::Database& database, const model::RunId& run,
                                  const SeriesQuery& query);
// At most so many of the points after `after`, and their total number.
Result<api::Series> points_of(store::Database& database, const SeriesRow& row, std::int64_t after,
                              std::int64_t most);

}  // namespace lockstep::insight
