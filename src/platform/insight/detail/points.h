// Points: a series' values by step, and summaries of them, so that a question about a million steps
// reads thousands of rows.
//
// Method. The steps are cut into blocks of 16, those into blocks of 256, 4,096 and 65,536 steps:
// the levels 1 to 4. A row of `summaries` holds of one block the number of its points, the first,
// the last, the least, the greatest and the first NaN. A series' steps below `summarized` have
// summaries on all levels; those from there on are read one by one, and are few: once 64 points
// wait, all whole blocks of them are summarized. A point that comes late, or again in a later
// attempt, has its block of each level made anew, from at most 16 rows each.
//
// Cost. About a microsecond a point when written; a question reads as many rows of the finest level
// that has few enough as it may give points, and fewer than a hundred single points at the ends.
#pragma once

#include <limits>
#include <optional>
#include <set>
#include <string>
#include <utility>

#include "platform/insight/detail/piece.h"
#include "platform/insight/detail/tally.h"

namespace lockstep::insight {

// SQLite has no NaN: it is NULL in the columns of values, which mean nothing else by it.
inline double value_of(const std::optional<double>& sql) {
  return sql.value_or(std::numeric_limits<double>::quiet_NaN());
}

// A row of the table `series`.
struct SeriesRow {
  std::int64_t id = 0;
  std::string name;
  int rank = 0;
  std::int64_t epoch = 0;  // from here to value: the latest point, of the newest attempt
  Point latest;
  std::optional<std::int64_t> summarized;
  std::int64_t pending = 0;      // points from `summarized` on, or a few more
  std::set<std::int64_t> stale;  // blocks of level 1 that changed since; not in the table
};

// What one call brings, within the caller's transaction.
class PointsWriter {
 public:
  PointsWriter(Database& database, const RunId& run, std::int64_t epoch, Tally& tally,
               const Limits& limits)
      : database_(database), run_(run), epoch_(epoch), tally_(tally), limits_(limits) {}

  // Values of earlier attempts override nothing. What breaks a limit is counted in the tally, and
  // the latest of it said in complaint().
  Result<void> add(const Item& item);
  // Writes the series' own rows and the summaries.
  Result<void> finish();

  // Empty, or a line for the run's log.
  const std::string& complaint() const { return complaint_; }

 private:
  Result<void> add(const Item& item, const std::string& name, double value);
  // Null for a new series that there is no room for.
  Result<SeriesRow*> series_of(const std::string& name, int rank);
  void refuse(const Item& item, std::string_view name, std::string_view why);

  Database& database_;
  const RunId& run_;
  std::int64_t epoch_;
  Tally& tally_;
  const Limits& limits_;
  std::map<std::pair<std::string, int>, SeriesRow> series_;
  std::string complaint_;
};

// Summarizes a slice of what waits to be (a call that brings very much leaves some): true while
// there is more.
Result<bool> summarize_some(Database& database);

// The run's series that fit the query, by name and rank.
Result<std::vector<SeriesRow>> find_series(Database& database, const RunId& run,
                                           const SeriesQuery& query, std::int64_t most);
Result<std::int64_t> count_series(Database& database, const RunId& run, const SeriesQuery& query);
// At most so many of the points behind `after`, and how many there are.
Result<Series> points_of(Database& database, const SeriesRow& row, std::int64_t after,
                         std::int64_t most);

}  // namespace lockstep::insight
