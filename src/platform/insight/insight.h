// Insight: stores what the ranks of a run report (log lines, metrics, progress, checkpoints,
// events) and the telemetry of its nodes, as their agents deliver it, and answers queries about it.
//
// An agent numbers its items and repeats them until they are acknowledged. Items up to the stored
// sequence of their node are skipped, so each is stored once. A run that continues from a
// checkpoint repeats steps: for each (series, rank, step) the value of the later attempt counts,
// and the latest value of a series is that of its newest attempt.
//
// Numbers are stored exactly, including NaN and infinities. The points of metrics are in the series
// store (docs/design/series.md), everything else is in the store's database. The two have marks of
// their own: while one of them cannot store, the other goes on, and what is missing comes again.
//
// No rank can block the daemon's single thread: the sizes of a call and of an answer are limited
// (docs/design/keeping.md). Dropped data is reported where it is missing: as a line of the run's
// log, or as a mark on the answer.
#pragma once

#include <cstdint>
#include <limits>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "base/units.h"
#include "platform/api/curve_messages.h"
#include "platform/api/insight_messages.h"
#include "platform/core/model/ids.h"
#include "platform/insight/line_pattern.h"
#include "platform/spool/telemetry_item.h"
#include "platform/store/database.h"
#include "platform/store/run_list.h"

namespace lockstep::insight {

struct LogQuery {
  std::int64_t after = 0;  // lines after this cursor
  std::int64_t limit = 1000;
  std::optional<int> rank;  // of this rank only
};

struct Lines {
  std::vector<api::LogLine> lines;  // oldest first
  bool more = false;                // they ended at a limit: ask again after the last one
};

struct LogSearch {
  const LinePattern& pattern;
  std::int64_t after = 0;     // lines after this cursor
  int context = 0;            // lines before and after each match, too
  std::optional<int> rank{};  // of this rank only
  // One call ends after so many lines, or after the time, but never before it has searched a line.
  std::int64_t lines_max = 4000;
  Duration time_max = std::chrono::milliseconds(5);
};

struct SeriesQuery {
  std::optional<std::string> name{};
  std::optional<int> rank{};
  std::optional<std::int64_t> after_step{};  // points after this step
  std::int64_t points = 10'000;              // at most, over all series
  std::optional<int> node{};                 // the telemetry of this node, and nothing of ranks
  std::optional<std::int64_t> pixels{};      // for each series; then `points` has no effect
  std::optional<std::int64_t> epoch{};       // of this attempt only
  // A metric that several ranks have logged has statistics over them. No effect with rank and node.
  bool aggregate = false;
  bool minutes = false;  // with node: the least and greatest values of minutes, too
};

// The curve of a metric of a run over x.
struct RunCurveQuery {
  std::string metric{};
  api::CurveAxis x = api::CurveAxis::step;
  std::optional<std::string> x_metric{};  // then `x` has no effect
  std::int64_t pixels = 200;
  std::optional<int> rank{};
  bool band = false;
  std::optional<double> from{}, to{};  // of x
};

// A position in the history of a metric, as PointCursor of the series store; it moves on.
struct HistoryCursor {
  std::int64_t epoch = 0;
  std::int64_t step = std::numeric_limits<std::int64_t>::min();
  std::int64_t skip = 0;
  bool ended = false;  // there is no further page
};

struct MetricPoint {
  std::int64_t step = 0;
  Time time{};
  double value = 0;
};

// The latest reports of a run's ranks.
struct RunSummary {
  std::optional<api::Progress> progress;
  std::map<std::string, double> latest;  // by metric, from the lowest rank that logged it
};

// An event of a run.
struct RunEvent {
  std::int64_t epoch = 0;
  int rank = 0;  // the rank that reported it, or whose agent did
  std::int64_t step = 0;
  Time time{};
  std::string text;  // one line
};

struct Limits {
  Bytes log = 256_MiB;          // of a run's lines: the newest are kept
  Bytes line = 32_KiB;          // a longer one is cut and marked
  std::int64_t values = 1'000;  // of one metrics item: further values are rejected
  std::size_t name = 256;       // bytes of a metric's name
  std::int64_t events = 200;    // of a run: the newest are kept
  std::size_t event = 1'000;    // bytes of one event; longer ones are cut
  // Space of the disk that is kept for the states of runs; at most a twentieth of the disk.
  Bytes reserve = 256_MiB;
};

// Items that were stored since the start.
struct Received {
  std::int64_t log_bytes = 0;  // of lines, as they came
  std::int64_t points = 0;     // of metrics and telemetry
};

// Why lines are removed: the run ended long ago, or all take too much space.
enum class Removal { age, space };

struct PointAges {
  Time ranks{};
  Duration around_findings{};  // before and after a finding, the points of its run's ranks stay
  Time telemetry{};
};

// The items that one call of a node's agent brings.
struct Delivery {
  model::NodeName node;
  std::span<const spool::TelemetryItem> items;
  double host_share = 1;  // of its host's devices, for the host's energy
};

class PointsWriter;
class SeriesStore;
struct Appended;
struct PointBatch;
struct RunCounters;
struct StoredSequences;

class Insight {
 public:
  // Both outlive this.
  Insight(store::Database& database, SeriesStore& series, const Limits& limits = {})
      : database_(database), series_(series), limits_(limits) {}

  // Stores the new items of the batch, all or nothing, and returns the highest sequence of the node
  // up to which everything is stored. If only the points cannot be stored, that is before them. An
  // empty batch only returns it; an unordered batch is an error. Metric values
  // beyond a limit are rejected individually; the run's log reports the first one and each tenth
  // power of their number.
  Result<std::int64_t> ingest(const model::NodeName& node,
                              std::span<const spool::TelemetryItem> items);

  // The same for several deliveries, in order, with one commit for all of them. One that cannot be
  // stored does not affect the others.
  std::vector<Result<std::int64_t>> ingest(std::span<const Delivery> deliveries);

  // Stores points that no agent brings, such as those of a client or of a file; `generation` is
  // that of the run. The batch names the run's attempt and its source. Points beyond a limit are
  // rejected alone. A repeated batch is not stored again.
  Result<Appended> append(const std::string& generation, const PointBatch& batch);
  // The sequence up to which the points of the source are stored; 0: it has none.
  Result<std::int64_t> appended(const model::RunId& run, const std::string& source);

  // Lines after a cursor, up to the limit or 4 MiB. If older lines were removed, a line of Lockstep
  // gives their number.
  Result<Lines> log(const model::RunId& run, const LogQuery& query);
  // The last lines of the run, oldest first, up to 4 MiB.
  Result<std::vector<api::LogLine>> log_tail(const model::RunId& run, std::int64_t lines,
                                             std::optional<int> rank = std::nullopt);
  // Lines that match, from a part of the run's lines: ask again after `next` until `ended`.
  Result<api::LogMatches> search(const model::RunId& run, const LogSearch& search);
  // The last lines that a rank printed in one attempt, oldest first, about 64 KiB.
  Result<std::vector<std::string>> last_of_rank(const model::AttemptId& attempt, int rank);
  // Removes the run's lines permanently, some at a time; true while some are left. A line of
  // Lockstep says why.
  Result<bool> expire_log(const model::RunId& run, Removal why = Removal::age);
  // The same for the points of its metrics; their latest values stay.
  Result<bool> expire_points(const model::RunId& run);
  // In the background: removes the points of single ranks that are older, where statistics over all
  // ranks are kept, and keeps one reading a minute of older telemetry.
  Result<void> expire_ranks(const PointAges& before);
  // The same for everything that was ever reported about it, without a trace.
  Result<bool> remove(const model::RunId& run);
  // Makes room in the database: removes some lines of the oldest ended run that has any, else lines
  // of the open run that has the most. False: there are none.
  Result<bool> free_some();
  // An error while the disk has less space than `Limits::reserve`: then nothing is ingested, so
  // that the states of runs can still be stored.
  Result<void> check_space() const;
  // The same for whole ended runs, those without new points for longest first, until all points
  // take at most that.
  Result<void> limit_points(Bytes most);
  // Moves points that an earlier version wrote into the series store, some at a time; true while
  // there are more.
  Result<bool> take_over_points();
  const Received& received() const { return received_; }
  // The sealed size of all points.
  Bytes points_size();
  // Failures of the series store, a line each.
  std::vector<std::string> problems() const;

  // By name and rank, without series that have no points after `after_step`. The cost depends on
  // the requested number of points, not on the stored number.
  Result<api::SeriesList> series(const model::RunId& run, const SeriesQuery& query = {});
  // Without `run` and `known`. A metric that the run does not have gives an empty curve.
  Result<api::RunCurve> curve(const model::RunId& run, const RunCurveQuery& query);
  // All points of one metric of the run, of the lowest rank that logged it: those of all attempts,
  // and those of a step that later ones override, too. `most`: 1 to 100,000.
  Result<std::vector<MetricPoint>> history(const model::RunId& run, const std::string& metric,
                                           HistoryCursor& cursor, std::int64_t most);
  // One for each of the runs; the number of queries does not depend on the number of runs. Contains
  // the first 1,000 metrics of a run by name, fewer for many runs: 20,000 over all.
  Result<std::map<model::RunId, RunSummary>> summaries(std::span<const model::RunId> runs);
  Result<RunSummary> summary(const model::RunId& run);
  // Runs by a metric of theirs.
  Result<std::vector<store::RankedRun>> ranked_runs(const model::RunFilter& filter,
                                                    const store::MetricOrder& order);
  // By step; the last 1,000.
  Result<std::vector<api::Checkpoint>> checkpoints(const model::RunId& run);
  // In the order of arrival. If older events were removed, the first one gives their number.
  Result<std::vector<RunEvent>> events(const model::RunId& run);

 private:
  Result<void> add_progress(const std::string& wanted,
                            std::map<model::RunId, RunSummary>& summaries);
  Result<void> add_latest(const std::string& wanted, std::map<model::RunId, RunSummary>& summaries);
  Result<StoredSequences> stored_sequences(const model::NodeId& node);
  Result<std::int64_t> put_new(const Delivery& delivery);
  Result<std::vector<std::int64_t>> ingest_together(std::span<const Delivery> deliveries);
  Result<std::int64_t> put(const Delivery& fresh, const StoredSequences& stored);
  Result<void> put_items(const model::NodeId& node, std::span<const spool::TelemetryItem> items,
                         RunCounters& counters);
  Result<void> put(const model::NodeId& node, const spool::TelemetryItem& item,
                   RunCounters& counters);
  std::int64_t put_points(const Delivery& delivery, const model::RunId& series_run,
                          const StoredSequences& stored, PointsWriter& points);
  Result<void> put_progress(const model::NodeId& node, const spool::TelemetryItem& item);
  Result<void> put_step_from_metrics(const model::NodeId& node,
                                     std::span<const spool::TelemetryItem> items);
  Result<void> put_checkpoint(const model::NodeId& node, const spool::TelemetryItem& item);
  Result<void> put_events(const model::NodeId& node, std::span<const spool::TelemetryItem> items);

  store::Database& database_;
  SeriesStore& series_;
  Limits limits_;
  Received received_;
  std::string points_problem_;  // why the last points could not be stored; empty: they could
};

}  // namespace lockstep::insight
