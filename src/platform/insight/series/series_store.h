// SeriesStore: the points of the metrics of runs, (run, attempt, series, step, time, value).
// Lossless; NaN and infinities are kept. docs/design/series.md has the method and the formats.
//
// The interface knows nothing of files; folder_series.h opens its form in a folder.
#pragma once

#include <array>
#include <compare>
#include <cstdint>
#include <limits>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "base/units.h"
#include "platform/core/model/ids.h"

namespace lockstep::insight {

// The part of a run that a series is about.
enum class RunPart : std::uint8_t {
  rank = 0,       // index: the rank
  node = 1,       // index: the node
  all_ranks = 2,  // index: a Statistic; made by the store, of metrics that several ranks log
  node_min = 3,   // index: the node; made by the store: the least value of each minute
  node_max = 4,   // index: the node; the greatest one
};

// Over the ranks that logged a metric at a step, each once.
enum class Statistic : std::int32_t {
  mean = 0,
  min = 1,
  max = 2,       // NaN is greater than all numbers
  spread = 3,    // the standard deviation of these ranks
  min_rank = 4,  // the lowest rank that has the least value
  max_rank = 5,
  ranks = 6,  // how many
};
inline constexpr std::array kStatistics = {
    Statistic::mean,     Statistic::min,      Statistic::max,  Statistic::spread,
    Statistic::min_rank, Statistic::max_rank, Statistic::ranks};

struct SeriesKey {
  std::string metric;  // 1 to 256 bytes of UTF-8 without control characters
  RunPart part = RunPart::rank;
  std::int32_t index = 0;  // at least 0
  auto operator<=>(const SeriesKey&) const = default;
};

struct SeriesPoint {
  std::int64_t step = 0;
  Time time{};
  double value = 0;  // any, with its bits
};

// Points of one attempt, from one source.
struct PointBatch {
  model::AttemptId attempt;
  // Source and sequence mark the batch. Those of a source ascend; gaps are allowed. An empty source
  // has no marks: each batch of it is stored.
  std::string source;
  std::int64_t sequence = 0;

  struct Point {
    std::uint32_t series = 0;  // index in `series`
    SeriesPoint point;
  };
  std::vector<SeriesKey> series;
  std::vector<Point> points;
};

struct RejectedPoint {
  std::size_t index = 0;  // in PointBatch::points
  std::string reason;
};

struct Appended {
  bool repeated = false;  // the mark was known: nothing was stored
  std::size_t stored = 0;
  std::size_t rejected = 0;
  std::vector<RejectedPoint> reasons{};  // of the first 100 rejected points
};

// Both ends are included.
struct StepRange {
  std::int64_t first = std::numeric_limits<std::int64_t>::min();
  std::int64_t last = std::numeric_limits<std::int64_t>::max();
};

struct CurveQuery {
  model::RunId run;
  SeriesKey series;
  std::optional<std::int64_t> epoch;  // of this attempt; otherwise the newest value of each step
  StepRange range;
  std::int64_t pixels = 1000;  // 1 to 100,000
  // The first steps of all pixels but the first, ascending; then `pixels` has no effect.
  std::vector<std::int64_t> borders{};
};

struct ValuesQuery {
  model::RunId run;
  SeriesKey series;
  std::optional<std::int64_t> epoch;
  std::vector<std::int64_t> steps;  // ascending, without repetition
};

// Points by step: of each pixel the first, last, least and greatest and the first NaN, without
// repetition.
struct Curve {
  std::vector<SeriesPoint> points;
  std::int64_t total = 0;       // points that the curve stands for
  bool downsampled = false;     // it stands for more points than it has
  std::int64_t unreadable = 0;  // segments and chunks that could not be read; problems() names them
};

// The statistics of a metric over all ranks. Each curve keeps its own extremes.
struct RankCurves {
  Curve mean, min, max, spread;
  std::vector<double> min_ranks, max_ranks;  // of the points of `min` and `max`
  std::int64_t unreadable = 0;
};

// The ranks that logged a metric.
struct MetricRanks {
  std::string metric;
  std::optional<std::int32_t> first{};  // the lowest; none: only nodes have it
  bool several = false;

  bool operator==(const MetricRanks&) const = default;
};

// A position in the points of a series: by attempt, then by step, then in the order of arrival.
struct PointCursor {
  std::int64_t epoch = 0;
  std::int64_t step = std::numeric_limits<std::int64_t>::min();
  std::int64_t skip = 0;  // points of this attempt and step that were returned before
};

struct PointsQuery {
  model::RunId run;
  SeriesKey series;
  std::optional<std::int64_t> epoch;  // of this attempt only
  StepRange range;
  PointCursor from{};
  std::int64_t most = 10'000;  // 1 to 100,000
};

struct AttemptPoint {
  std::int64_t epoch = 0;
  SeriesPoint point;
};

// All points, also those that others override.
struct PointsPage {
  std::vector<AttemptPoint> points;
  std::optional<PointCursor> next;  // none: this was the last page
  std::int64_t unreadable = 0;
};

struct SeriesLatest {
  SeriesKey series;
  std::int64_t epoch = 0;  // the newest attempt that has points
  SeriesPoint point;       // its last one by step
  std::int64_t count = 0;  // stored points of all attempts
};

struct LatestPage {
  std::vector<SeriesLatest> series;  // by metric, part, index
  bool more = false;                 // ask again after the last one
  std::int64_t unreadable = 0;
};

// Both ends are included.
struct TimeRange {
  Time first{}, last{};
};

// The sealed points that are to go.
struct Expiry {
  // Those of single ranks that are older, of metrics with statistics over all ranks. These, the
  // points of the lowest rank of each metric, and those in segments that also have newer points
  // stay.
  Time ranks = Time::min();
  // Chunks of ranks with points of these times stay.
  std::map<model::RunId, std::vector<TimeRange>> kept{};
  // Those of nodes that are older become their mean in each minute, with its extremes as series of
  // their own. A step of a node is a time in seconds. A segment is changed when that removes half
  // of its points of nodes.
  Time nodes = Time::min();
};

class SeriesStore {
 public:
  virtual ~SeriesStore() = default;

  // Returns when the batch is in the kernel. Waits only if too many points wait for the disk
  // (Code::unavailable after 10 s, or the disk's error). On an error nothing is stored.
  virtual Result<Appended> append(const PointBatch& batch) = 0;
  // The highest sequence of the source; 0 if there is none.
  virtual Result<std::int64_t> stored_sequence(const model::RunId& run,
                                               const std::string& source) = 0;
  // Returns when every acknowledged point is on the disk.
  virtual Result<void> sync() = 0;

  // A series without points gives an empty answer. Series of statistics have curves, too.
  virtual Result<Curve> curve(const CurveQuery& query) = 0;
  // The query's metric over all ranks; empty if fewer than two ranks have logged it.
  virtual Result<RankCurves> rank_curves(const CurveQuery& query) = 0;
  virtual Result<PointsPage> points(const PointsQuery& query) = 0;
  // For each step its value, or that of the last step before it; none: there is none before it.
  virtual Result<std::vector<std::optional<double>>> values(const ValuesQuery& query) = 0;
  // The series of ranks and nodes, with the extremes of minutes, after `after`, `most` of them (1
  // to 100,000), with their latest points.
  virtual Result<LatestPage> latest(const model::RunId& run, const std::optional<SeriesKey>& after,
                                    std::int64_t most) = 0;
  // The run's metrics, by name.
  virtual Result<std::vector<MetricRanks>> metrics(const model::RunId& run) = 0;
  // One of them; none: the run does not have it.
  virtual Result<std::optional<MetricRanks>> ranks_of(const model::RunId& run,
                                                      const std::string& metric) = 0;

  // Removes the run's points and marks. Queries in progress are not affected.
  virtual Result<void> remove(const model::RunId& run) = 0;
  // Removes whole runs, those first that got no points for longest, until all take at most `keep`;
  // returns them. Keeps runs with points that are not sealed.
  virtual Result<std::vector<model::RunId>> remove_oldest(Bytes keep) = 0;
  // Removes them in the background.
  virtual void expire(Expiry expiry) = 0;
  // Sealed size of a run, and of all.
  virtual Bytes bytes(const model::RunId& run) = 0;
  virtual Bytes bytes() = 0;
  // Failures of reading and writing, one line each, the newest 100.
  virtual std::vector<std::string> problems() = 0;
};

}  // namespace lockstep::insight
