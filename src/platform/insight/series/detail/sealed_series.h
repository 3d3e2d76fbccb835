// SealedSeries: the series store as a log, open points in memory, and sealed segments.
// docs/design/series.md has the method.
//
// Every batch is in the log and among the open points of its run, or in a segment. Generations
// order them: the open points are those of the log's generations after `sealing_through_`; frozen
// points are those up to it. A segment of a run has all its points up to its last generation, so
// that records of these generations are not replayed for the run.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <thread>
#include <unordered_set>
#include <vector>

#include "base/mutex.h"
#include "base/os/fd.h"
#include "platform/insight/series/detail/batch_record.h"
#include "platform/insight/series/detail/open_points.h"
#include "platform/insight/series/detail/pieces.h"
#include "platform/insight/series/detail/point_log.h"
#include "platform/insight/series/detail/rank_statistics.h"
#include "platform/insight/series/detail/segment_cache.h"
#include "platform/insight/series/detail/segment_name.h"
#include "platform/insight/series/folder_series.h"

namespace lockstep::insight::series {

struct StoredSegment {
  SegmentName name;
  bool damaged = false;      // its index cannot be read: left out of answers and merges
  bool has_expired = false;  // it has no points of single ranks that could be removed
};

struct RunState {
  explicit RunState(model::RunId run) : id(std::move(run)) {}

  const model::RunId id;
  bool removed = false;
  bool merges = true;                                     // false: a merge found damage
  std::vector<StoredSegment> segments;                    // by generation
  std::optional<Marks> marks;                             // of all batches; none: not read yet
  std::optional<std::unordered_set<std::size_t>> series;  // hashes of all; none: not read yet
  bool changed = false;                                   // since the last freeze
  OpenPoints open;
  RanksOfMetrics open_ranks;
  std::size_t open_bytes = 0;
  // Points that are being sealed; queries and the sealing thread read it without the lock.
  std::shared_ptr<const OpenPoints> frozen;
  RanksOfMetrics frozen_ranks;  // as long as `frozen` is there
  Marks frozen_marks;
};

class SealedSeries : public SeriesStore {
 public:
  SealedSeries(Fd lock, std::unique_ptr<Blobs> blobs, const SeriesLimits& limits);
  ~SealedSeries() override;
  SealedSeries(const SealedSeries&) = delete;
  SealedSeries& operator=(const SealedSeries&) = delete;
  // Reads the names of segments, replays the log and starts the threads. Once, before all else.
  Result<void> start(const std::filesystem::path& folder);

  Result<Appended> append(const PointBatch& batch) override;
  Result<std::int64_t> stored_sequence(const model::RunId& run, const std::string& source) override;
  Result<void> sync() override;
  Result<Curve> curve(const CurveQuery& query) override;
  Result<RankCurves> rank_curves(const CurveQuery& query) override;
  Result<PointsPage> points(const PointsQuery& query) override;
  Result<std::vector<std::optional<double>>> values(const ValuesQuery& query) override;
  Result<LatestPage> latest(const model::RunId& run, const std::optional<SeriesKey>& after,
                            std::int64_t most) override;
  Result<std::vector<MetricRanks>> metrics(const model::RunId& run) override;
  Result<std::optional<MetricRanks>> ranks_of(const model::RunId& run,
                                              const std::string& metric) override;
  Result<void> remove(const model::RunId& run) override;
  Result<std::vector<model::RunId>> remove_oldest(Bytes keep) override;
  void expire(Expiry expiry) override;
  Bytes bytes(const model::RunId& run) override;
  Bytes bytes() override;
  std::vector<std::string> problems() override;

 private:
  using Run = std::shared_ptr<RunState>;  // shared with the sealing thread, which may outlive it
  // Where the points of a batch go.
  struct Slots {
    std::vector<OpenAttempts*> attempts;  // none: not there yet
    std::vector<bool> accepted;
    std::vector<std::string> reasons;  // of those that are not accepted
  };
  struct LatestFound;
  struct RanksInMemory;
  struct RankTables;
  using StatisticsByAttempt = std::map<std::int64_t, StepTable>;

  // --- start.cc ---
  Result<void> list_segments(std::int64_t& newest) LS_REQUIRES(mutex_);
  Result<void> replay(std::int64_t generation, const LogRecord& record) LS_REQUIRES(mutex_);

  // --- sealed_series.cc ---
  RunState* find(const model::RunId& run) LS_REQUIRES(mutex_);
  RunState& find_or_create(const model::RunId& run) LS_REQUIRES(mutex_);
  // None if it is damaged, which is remembered and reported.
  std::shared_ptr<const Segment> open_segment(RunState& run, StoredSegment& stored)
      LS_REQUIRES(mutex_);
  Marks& marks_of(RunState& run) LS_REQUIRES(mutex_);
  std::unordered_set<std::size_t>& series_of(RunState& run) LS_REQUIRES(mutex_);
  Result<void> wait_for_room() LS_REQUIRES(mutex_);
  Slots slots_for(const PointBatch& batch, RunState& run) LS_REQUIRES(mutex_);
  void add_points(const PointBatch& batch, Slots& slots, RunState& run) LS_REQUIRES(mutex_);
  // The open points become frozen ones, and the log goes on in another file.
  Result<void> freeze() LS_REQUIRES(mutex_);
  void add_problem(std::string problem) LS_REQUIRES(mutex_);
  std::vector<std::string> names_of(const RunState& run) LS_REQUIRES(mutex_);
  Bytes bytes_of_run(const RunState& run) LS_REQUIRES(mutex_);
  Result<void> remove_locked(const model::RunId& run) LS_REQUIRES(mutex_);

  // --- queries.cc ---
  std::vector<Piece> pieces_of(const model::RunId& run, const SeriesKey& key,
                               std::optional<std::int64_t> epoch, const StepRange& range,
                               std::int64_t& unreadable);
  // The series is that of a rank, a node or a statistic.
  std::vector<Piece> pieces_of_any(const CurveQuery& query, std::int64_t& unreadable);
  Unreadable counting(std::int64_t& unreadable);
  std::map<SeriesKey, LatestFound> find_latest(RunState& run, const std::optional<SeriesKey>& after,
                                               std::size_t most, std::int64_t& unreadable)
      LS_REQUIRES(mutex_);

  // --- rank_curves.cc ---
  RanksInMemory ranks_in_memory(RunState& run, const CurveQuery& query, std::int64_t& unreadable)
      LS_REQUIRES(mutex_);
  void take_segments(RunState& run, RanksInMemory& found, std::int64_t& unreadable)
      LS_REQUIRES(mutex_);
  // The query's series is a statistic.
  std::vector<Piece> pieces_of_statistic(const CurveQuery& query, std::int64_t& unreadable);
  RankTables tables_for(const CurveQuery& query, std::int64_t& unreadable);
  std::vector<Piece> pieces_of_statistic(const CurveQuery& query, const RankTables& tables,
                                         std::int32_t statistic, std::int64_t& unreadable);
  Result<void> write_statistics(const Run& run, const std::string& metric, SegmentWriter& out);

  // --- expiry.cc ---
  Result<void> expire_some();
  Result<void> expire(const Run& run, const StoredSegment& stored, const Expiry& expiry);

  // --- background.cc ---
  Result<void> write_points(const Run& run, const OpenPoints& points, SegmentWriter& out);
  void seal_loop();
  bool has_work() LS_REQUIRES(mutex_);
  void remove_garbage();
  Result<void> seal();
  Result<void> seal_run(const Run& run, std::int64_t through);
  Result<void> merge_some();
  Result<void> merge(const Run& run, const std::vector<StoredSegment>& inputs);
  // The segment takes the place of those in the run, which become garbage.
  void replace(RunState& run, const std::vector<StoredSegment>& old, const SegmentName& by)
      LS_REQUIRES(mutex_);
  void sync_loop();
  Result<void> sync_log();

  const Fd lock_;  // no other process has the folder
  const SeriesLimits limits_;
  const std::unique_ptr<Blobs> blobs_;

  Mutex sync_mutex_;  // held while files are synced, so that sync() waits for a sync in progress

  Mutex mutex_;  // guards what follows
  Condition changed_;
  bool ending_ LS_GUARDED_BY(mutex_) = false;
  SegmentCache cache_ LS_GUARDED_BY(mutex_);
  std::map<model::RunId, Run> runs_ LS_GUARDED_BY(mutex_);
  std::unique_ptr<PointLog> log_ LS_GUARDED_BY(mutex_);
  std::string record_ LS_GUARDED_BY(mutex_);          // kept for its memory
  std::vector<Run> open_runs_ LS_GUARDED_BY(mutex_);  // those that changed since the last freeze
  std::size_t open_bytes_ LS_GUARDED_BY(mutex_) = 0;
  std::vector<Run> sealing_ LS_GUARDED_BY(mutex_);  // runs with frozen points; empty: none
  std::size_t frozen_bytes_ LS_GUARDED_BY(mutex_) = 0;
  std::int64_t sealing_through_ LS_GUARDED_BY(mutex_) = 0;
  std::int64_t sealed_through_ LS_GUARDED_BY(mutex_) = 0;
  std::int64_t failed_sync_ LS_GUARDED_BY(mutex_) = 0;  // the newest generation that did not sync
  std::optional<Error> seal_error_ LS_GUARDED_BY(mutex_);
  std::set<model::RunId> merge_queue_ LS_GUARDED_BY(mutex_);
  std::set<model::RunId> expiry_queue_ LS_GUARDED_BY(mutex_);
  std::shared_ptr<const Expiry> expiry_ LS_GUARDED_BY(mutex_);  // shared with the thread
  std::vector<std::string> garbage_ LS_GUARDED_BY(mutex_);      // objects to remove
  std::deque<std::string> problems_ LS_GUARDED_BY(mutex_);

  std::thread sealer_, syncer_;
};

}  // namespace lockstep::insight::series
