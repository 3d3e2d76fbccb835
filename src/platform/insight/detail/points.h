// Points: the metrics of a delivery as a batch of the series store, and the latest value of each
// metric of a run, which lists of runs show.
//
// Two tables stand beside the series store. `latest_metrics` has a row for each metric of a run:
// the latest value of the lowest rank that logged it. `spools` has, for each node, the sequence up
// to which its items are in the database, and the one up to which its points are in the series
// store.
#pragma once

#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include "platform/insight/detail/run_counters.h"
#include "platform/insight/series/series_store.h"

namespace lockstep::insight {

// Up to which item of a node everything is stored.
struct StoredSequences {
  std::int64_t items = 0;   // in the database
  std::int64_t points = 0;  // in the series store; at most `items`
};

// Metrics of a rank, or of its node.
inline bool has_points(spool::TelemetryKind kind) {
  return kind == spool::TelemetryKind::metrics || kind == spool::TelemetryKind::telemetry;
}

bool is_metric_name(std::string_view name, const Limits& limits);

// The points of one call.
class PointsWriter {
 public:
  PointsWriter(const model::NodeName& node, RunCounters& counters, const Limits& limits)
      : node_(node), counters_(counters), limits_(limits), refused_before_(counters.refused) {
    batch_.attempt = {series_run(counters, node.id.attempt.run), node.id.attempt.epoch};
    batch_.source = text(node);
  }

  // Values beyond a limit are counted in the counters, and rejection_note() describes the latest.
  void add(const spool::TelemetryItem& item);
  // For an item whose points are in the series store already.
  void add_latest(const spool::TelemetryItem& item);
  // For points that come without an item.
  void add_latest(const PointBatch& batch);
  // Appends all points; the counters have how many. On an error they are as before.
  Result<void> store(SeriesStore& series);
  Result<void> save_latest(store::Database& database);

  // Empty, or a line for the run's log.
  const std::string& rejection_note() const { return rejection_note_; }

 private:
  struct Latest {
    int rank = 0;
    SeriesPoint point;
    double least = 0, greatest = 0;  // NaN: no value is a number

    void add(const SeriesPoint& newer);  // of the same rank
  };

  void add(const spool::TelemetryItem& item, const std::string& name, double value);
  SeriesKey key_of(const spool::TelemetryItem& item, const std::string& name) const;
  void set_latest(const spool::TelemetryItem& item, const std::string& name, double value);
  void reject(std::int64_t step, std::string_view name, std::string_view why);

  const model::NodeName& node_;
  RunCounters& counters_;
  const Limits& limits_;
  const std::int64_t refused_before_;
  PointBatch batch_;
  std::map<SeriesKey, std::uint32_t> series_;  // index in the batch
  std::map<std::string, Latest> latest_;       // by metric; of ranks only
  std::string rejection_note_;
};

// The run's series that match the query, by name and rank: at most `most`, and how many there are.
struct FoundSeries {
  std::vector<SeriesLatest> series;
  std::int64_t total = 0;
};
Result<FoundSeries> find_series(SeriesStore& store, const model::RunId& run,
                                const SeriesQuery& query, std::int64_t most);
inline constexpr std::int64_t kStatisticsShown = 4;  // series of a metric over all ranks

// The metrics that the query names: those that several ranks have logged, and the series of the
// others.
struct FoundMetrics {
  std::vector<std::string> of_several;
  FoundSeries others{};
};
Result<FoundMetrics> find_metrics(SeriesStore& store, const model::RunId& run,
                                  const SeriesQuery& query, std::int64_t most);
// Mean, min, max and spread of such a metric, each with `share` points or pixels as below.
Result<std::vector<api::Series>> statistics_of(SeriesStore& store, const model::RunId& run,
                                               const std::string& metric, const SeriesQuery& wanted,
                                               std::int64_t share);
// A metric that the query names has statistics over more ranks than have points of their own.
Result<bool> has_removed_ranks(SeriesStore& store, const model::RunId& run,
                               const SeriesQuery& query);
// The points of one of them, and their total number: at most `share` points, or those of `share`
// pixels if the query gives pixels.
Result<api::Series> points_of(SeriesStore& store, const model::RunId& run, const SeriesKey& series,
                              const SeriesQuery& wanted, std::int64_t share);

// Moves some of the points that an earlier version has written to the database into the series
// store, exactly once; true while there are more.
Result<bool> take_over_points(store::Database& database, SeriesStore& series);
// Removes some of those of the run; true while some are left.
Result<bool> remove_old_points(store::Database& database, const model::RunId& run,
                               std::int64_t most);

}  // namespace lockstep::insight
