// The threads: one seals and merges, one syncs the log.
#include <algorithm>
#include <tuple>
#include <utility>

#include "platform/insight/series/detail/merge.h"
#include "platform/insight/series/detail/sealed_series.h"

namespace lockstep::insight::series {
namespace {

// So many neighbours of a level become one segment.
constexpr std::size_t kMerged = 8;
// Until failed work is tried again.
constexpr Duration kRetry = std::chrono::seconds(1);

struct SeriesToSeal {
  const SeriesKey* key;
  std::int64_t epoch;
  const OpenSeries* series;
};

// In the order of a segment's index.
std::vector<SeriesToSeal> ordered(const OpenPoints& points) {
  std::vector<SeriesToSeal> all;
  for (const auto& [key, attempts] : points)
    for (const auto& [epoch, series] : attempts)
      if (!series.points.empty()) all.push_back({&key, epoch, &series});
  std::ranges::sort(all, [](const SeriesToSeal& a, const SeriesToSeal& b) {
    return std::tie(*a.key, a.epoch) < std::tie(*b.key, b.epoch);
  });
  return all;
}

// The oldest neighbours that can be merged; empty if there are none.
std::vector<StoredSegment> mergeable(const std::vector<StoredSegment>& segments, Bytes most) {
  for (std::size_t begin = 0; begin + kMerged <= segments.size(); ++begin) {
    const auto some = std::span(segments).subspan(begin, kMerged);
    Bytes total;
    for (const StoredSegment& stored : some) total += stored.name.size;
    const bool fit = std::ranges::all_of(some, [&](const StoredSegment& stored) {
      return !stored.damaged && stored.name.level == some.front().name.level;
    });
    if (fit && total <= most) return {some.begin(), some.end()};
  }
  return {};
}

}  // namespace

bool SealedSeries::has_work() {
  return !sealing_.empty() || !merge_queue_.empty() || !expiry_queue_.empty() ||
         !garbage_.empty() || (failed_sync_ > sealed_through_ && sealing_.empty());
}

void SealedSeries::seal_loop() {
  bool failed = false;
  while (true) {
    Result<void> done;
    {
      const Lock lock(mutex_);
      const Deadline retry = Deadline::after(kRetry);
      const auto waits = [&] { return failed && !retry.passed(); };
      while (!ending_ && (!has_work() || waits()))
        changed_.wait_until(mutex_, waits() ? retry : Deadline::after(kRetry));
      if (ending_) return;
      // Points whose log is not on the disk go there in segments.
      if (failed_sync_ >= log_->generation() && sealing_.empty()) done = freeze();
    }
    remove_garbage();
    if (done) done = seal();
    if (done) done = merge_some();
    if (done) done = expire_some();
    failed = !done;
    if (!done) {
      const Lock lock(mutex_);
      add_problem(done.error().message);
    }
  }
}

void SealedSeries::remove_garbage() {
  std::vector<std::string> names;
  {
    const Lock lock(mutex_);
    names = std::exchange(garbage_, {});
    for (const std::string& name : names) cache_.forget(name);
  }
  for (const std::string& name : names)
    if (auto removed = blobs_->remove(name); !removed) {
      const Lock lock(mutex_);
      garbage_.push_back(name);
      add_problem(removed.error().message);
    }
}

// --- Sealing ---

// The statistics of a metric come after the series of its ranks.
Result<void> SealedSeries::write_points(const Run& run, const OpenPoints& points,
                                        SegmentWriter& out) {
  const std::string* metric = nullptr;
  for (const auto& [key, epoch, series] : ordered(points)) {
    if (metric != nullptr && *metric != key->metric) TRY(write_statistics(run, *metric, out));
    metric = &key->metric;
    out.begin_series(*key, epoch);
    std::vector<SeriesPoint> copy;
    std::span<const SeriesPoint> all = series->points;
    if (!series->sorted) all = copy = series->sorted_points();
    TRY(out.add_all(all));
  }
  return metric == nullptr ? Result<void>() : write_statistics(run, *metric, out);
}

Result<void> SealedSeries::seal() {
  std::vector<Run> runs;
  std::int64_t through = 0;
  {
    const Lock lock(mutex_);
    if (sealing_.empty()) {
      // A generation without points that did not sync.
      if (failed_sync_ > sealed_through_ && sealing_through_ >= failed_sync_)
        sealed_through_ = sealing_through_;
      return {};
    }
    runs = sealing_;
    through = sealing_through_;
  }
  for (const Run& run : runs)
    if (auto sealed = seal_run(run, through); !sealed) {
      const Error error =
          std::move(sealed).error().with_context("sealing the points of " + text(run->id));
      const Lock lock(mutex_);
      seal_error_ = error;
      changed_.notify_all();
      return error;
    }
  const Lock lock(mutex_);
  seal_error_.reset();
  sealing_.clear();
  frozen_bytes_ = 0;
  sealed_through_ = through;
  changed_.notify_all();
  // The log tells of removals until the objects are gone.
  return garbage_.empty() ? log_->remove_through(through) : Result<void>{};
}

Result<void> SealedSeries::seal_run(const Run& run, std::int64_t through) {
  std::shared_ptr<const OpenPoints> frozen;  // queries share it
  Marks marks;
  SegmentName name{.first = through, .last = through};
  {
    const Lock lock(mutex_);
    if (run->removed || !run->frozen) return {};
    frozen = run->frozen;
    marks = run->frozen_marks;
    if (!run->segments.empty()) name.first = run->segments.back().name.last + 1;
  }
  SegmentWriter writer(TRY(blobs_->create(text(run->id, name))));
  TRY(write_points(run, *frozen, writer));
  TRY(writer.commit(marks));
  name.size = writer.size();
  const Lock lock(mutex_);
  if (run->removed) {
    garbage_.push_back(text(run->id, name));
    return {};
  }
  run->segments.push_back({name});
  run->frozen.reset();
  run->frozen_ranks.clear();
  merge_queue_.insert(run->id);
  return {};
}

// --- Merging ---

Result<void> SealedSeries::merge_some() {
  Run run;
  std::vector<StoredSegment> inputs;
  {
    const Lock lock(mutex_);
    while (inputs.empty()) {
      if (merge_queue_.empty()) return {};
      const auto found = runs_.find(*merge_queue_.begin());
      merge_queue_.erase(merge_queue_.begin());
      if (found == runs_.end() || !found->second->merges) continue;
      run = found->second;
      inputs = mergeable(run->segments, limits_.merged);
    }
  }
  auto merged = merge(run, inputs);
  const Lock lock(mutex_);
  if (merged) {
    merge_queue_.insert(run->id);
    return {};
  }
  if (merged.error().code == Code::cancelled) return {};
  // Damage stays; everything else may be over at the next start or with the next segment.
  run->merges = merged.error().code != Code::corrupt;
  return std::move(merged).error().with_context("merging segments of " + text(run->id));
}

Result<void> SealedSeries::merge(const Run& run, const std::vector<StoredSegment>& inputs) {
  SegmentName name{.first = inputs.front().name.first,
                   .last = inputs.back().name.last,
                   .level = inputs.front().name.level + 1};
  std::vector<std::shared_ptr<const Segment>> segments;
  {
    const Lock lock(mutex_);
    for (StoredSegment stored : inputs) {
      segments.push_back(open_segment(*run, stored));
      if (!segments.back()) return Error{Code::corrupt, "a segment is set aside"};
    }
  }
  SegmentWriter writer(TRY(blobs_->create(text(run->id, name))));
  TRY(merge_segments(segments, writer, [&] {
    (void)seal();  // its error is kept, and it is tried again after the merge
    const Lock lock(mutex_);
    return !ending_ && !run->removed;
  }));
  TRY(writer.commit(segments.back()->marks()));
  name.size = writer.size();
  const Lock lock(mutex_);
  if (run->removed) {
    garbage_.push_back(text(run->id, name));
    return {};
  }
  replace(*run, inputs, name);
  return {};
}

void SealedSeries::replace(RunState& run, const std::vector<StoredSegment>& old,
                           const SegmentName& by) {
  auto& all = run.segments;
  const auto begin = std::ranges::find(all, old.front().name.first,
                                       [](const StoredSegment& s) { return s.name.first; });
  const auto end = begin + static_cast<std::ptrdiff_t>(old.size());
  for (auto stored = begin; stored != end; ++stored) garbage_.push_back(text(run.id, stored->name));
  *begin = {by};
  all.erase(begin + 1, end);
}

// --- Syncing ---

void SealedSeries::sync_loop() {
  while (true) {
    {
      const Lock lock(mutex_);
      const Deadline next = Deadline::after(limits_.sync);
      while (!ending_ && !next.passed()) changed_.wait_until(mutex_, next);
      if (ending_) break;
    }
    (void)sync_log();  // a problem, which the sealing thread solves
  }
  (void)sync_log();
}

Result<void> SealedSeries::sync_log() {
  const Lock syncing(sync_mutex_);
  std::vector<PointLog::Unsynced> files;
  const PointLog* log = nullptr;
  {
    const Lock lock(mutex_);
    files = log_->take_unsynced();
    log = log_.get();
  }
  for (const PointLog::Unsynced& file : files)
    if (auto synced = log->sync(file); !synced) {
      const Lock lock(mutex_);
      failed_sync_ = std::max(failed_sync_, file.generation);
      add_problem(synced.error().message);
      changed_.notify_all();
      return std::move(synced).error();
    }
  return {};
}

Result<void> SealedSeries::sync() {
  TRY(sync_log());
  const Lock lock(mutex_);
  if (failed_sync_ <= sealed_through_) return {};
  return Error{Code::unavailable,
               "the log of points could not be synced; its points are being written again"};
}

}  // namespace lockstep::insight::series
