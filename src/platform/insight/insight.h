// Insight: what the ranks of a run say of themselves - lines, metrics, progress, checkpoints,
// events - as their agents ship it, and the questions asked about it.
//
// An agent numbers what it collects and sends it again until it hears that it is stored. Items up
// to the stored sequence of their node count as known and are skipped, so each is stored once. A
// run that goes on from a checkpoint repeats steps: for each (series, rank, step) the later
// attempt's value stands, and the latest value of a series is that of its newest attempt.
//
// Numbers are kept exactly, NaN and infinities too. Everything lies in the store's database.
//
// Whatever a rank does, the daemon's one thread goes on: what a call may bring and what an answer
// may hold is bounded (docs/design/keeping.md), and what gave way is said where it is missed: as a
// line of the run's log, or as a mark on the answer.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "base/units.h"
#include "platform/core/model/ids.h"
#include "platform/item/item.h"
#include "platform/store/database.h"

namespace lockstep::insight {

struct Line {
  std::int64_t cursor = 0;  // ascending in the order of arrival
  std::int64_t epoch = 0;
  int rank = 0;
  Time time{};
  std::string text;  // without the line's end
};

struct LogQuery {
  std::int64_t after = 0;  // lines behind this cursor
  std::int64_t limit = 1000;
  std::optional<int> rank;  // of this rank only
};

struct LogPage {
  std::vector<Line> lines;  // oldest first
  bool more = false;        // it ended at a limit: ask again behind its last line
};

struct Point {
  std::int64_t step = 0;
  Time time{};
  double value = 0;
};

struct Series {
  std::string name;
  int rank = 0;
  std::vector<Point> points;  // by step
  // All that were asked for. More than `points` has: then those are the first, the last, the least,
  // the greatest and the first NaN of each of some stretches of steps.
  std::int64_t total = 0;
  bool downsampled() const { return total > static_cast<std::int64_t>(points.size()); }
};

struct SeriesQuery {
  std::optional<std::string> name;
  std::optional<int> rank;
  std::optional<std::int64_t> after_step;  // points behind this step
  std::int64_t points = 10'000;            // at most, over all series
};

struct SeriesPage {
  std::vector<Series> series;  // by name and rank
  std::int64_t left_out = 0;   // series that there was no room for: ask for them by name or rank
};

struct Progress {
  std::int64_t epoch = 0;
  std::int64_t step = 0;
  std::int64_t steps = 0;  // 0: unknown
  Time time{};
};

// What the ranks of a run said last.
struct RunSummary {
  std::optional<Progress> progress;
  std::map<std::string, double> latest;  // of each metric, from the lowest rank that logged it
};

struct Checkpoint {
  std::int64_t step = 0;
  std::int64_t epoch = 0;
  std::string path;
  Time time{};
};

// Something that happened to a run.
struct RunEvent {
  std::int64_t epoch = 0;
  int rank = 0;  // whose agent, or which itself, told it
  std::int64_t step = 0;
  Time time{};
  std::string text;  // one line
};

struct Limits {
  Bytes log = 256_MiB;           // of a run's lines: the newest are kept
  Bytes line = 32_KiB;           // a longer one is cut and marked
  std::int64_t series = 10'000;  // of a run: values of further ones are refused
  std::int64_t values = 1'000;   // of one item of metrics: further ones are refused
  std::size_t name = 256;        // bytes of a metric's name
  std::int64_t events = 200;     // of a run: the newest are kept
  std::size_t event = 1'000;     // bytes of one; more are cut off
};

class PointsWriter;
struct Tally;

class Insight {
 public:
  explicit Insight(Database& database, const Limits& limits = {})  // the database outlives this
      : database_(database), limits_(limits) {}

  // Stores what is new of the batch, all or nothing, and returns the highest sequence of the node
  // that is durable now. An empty batch only asks for that; one out of order is refused. Values of
  // metrics that break a limit are refused alone; the run's log says so, at the first and at each
  // tenth power of their number.
  Result<std::int64_t> ingest(const NodeId& node, std::span<const Item> items);

  // Lines behind a cursor, up to the limit or 4 MiB. Where older ones are gone, a line of
  // Lockstep's says how many.
  Result<LogPage> log(const RunId& run, const LogQuery& query);
  // The last lines of the run, oldest first, up to 4 MiB.
  Result<std::vector<Line>> log_tail(const RunId& run, std::int64_t lines,
                                     std::optional<int> rank = std::nullopt);
  // Removes the run's lines for good, a slice of them; true while some are left.
  Result<bool> expire_log(const RunId& run);
  // Does a slice of what very large calls left to be done; true while there is more.
  Result<bool> catch_up();

  // By name and rank; series without points behind `after_step` are left out. Its cost is bounded
  // by the points asked for, however many there are.
  Result<SeriesPage> series(const RunId& run, const SeriesQuery& query = {});
  // One for each of the runs, in as many queries for a thousand of them as for one. Of a run's
  // metrics it has the first 1,000 by name, fewer when there are many runs: 20,000 over all.
  Result<std::map<RunId, RunSummary>> summaries(std::span<const RunId> runs);
  Result<RunSummary> summary(const RunId& run);
  // By step; the last 1,000.
  Result<std::vector<Checkpoint>> checkpoints(const RunId& run);
  // In the order of arrival. Where older ones are gone, the first says how many.
  Result<std::vector<RunEvent>> events(const RunId& run);

 private:
  Result<void> add_progress(const std::string& wanted, std::map<RunId, RunSummary>& summaries);
  Result<void> add_latest(const std::string& wanted, std::map<RunId, RunSummary>& summaries);
  Result<std::int64_t> stored_sequence(const NodeId& node);
  Result<void> put(const NodeId& node, std::span<const Item> items);
  Result<void> put(const NodeId& node, const Item& item, Tally& tally, PointsWriter& points);
  Result<void> put_progress(const NodeId& node, const Item& item);
  Result<void> put_step_of_metrics(const NodeId& node, std::span<const Item> items);
  Result<void> put_checkpoint(const NodeId& node, const Item& item);
  Result<void> put_events(const NodeId& node, std::span<const Item> items);

  Database& database_;
  Limits limits_;
};

}  // namespace lockstep::insight
