// The start of a store: names of segments, and the log.
#include <algorithm>
#include <utility>

#include "base/format.h"
#include "base/os/file_lock.h"
#include "base/os/files.h"
#include "platform/insight/series/detail/sealed_series.h"
#include "platform/insight/series/folder_blobs.h"

namespace lockstep::insight::series {

SealedSeries::SealedSeries(Fd lock, std::unique_ptr<Blobs> blobs, const SeriesLimits& limits)
    : lock_(std::move(lock)), limits_(limits), blobs_(std::move(blobs)), cache_(*blobs_) {}

SealedSeries::~SealedSeries() {
  {
    const Lock lock(mutex_);
    ending_ = true;
    changed_.notify_all();
  }
  if (sealer_.joinable()) sealer_.join();
  if (syncer_.joinable()) syncer_.join();
}

Result<void> SealedSeries::start(const std::filesystem::path& folder) {
  const Lock lock(mutex_);
  std::int64_t newest = 0;
  TRY(list_segments(newest));
  std::vector<std::string> problems;
  // Called with the lock, which clang cannot see.
  const auto visit = [this](std::int64_t generation, ByteSpan payload)
                         LS_THREAD_ANNOTATION(no_thread_safety_analysis) -> Result<void> {
    return replay(generation, TRY(decode_record(payload)));
  };
  log_ = TRY(PointLog::open(folder, newest, visit, problems));
  for (std::string& problem : problems) add_problem(std::move(problem));
  for (const auto& [id, run] : runs_) merge_queue_.insert(id);
  if (open_bytes_ >= static_cast<std::size_t>(limits_.seal.count())) TRY(freeze());
  sealer_ = std::thread([this] { seal_loop(); });
  syncer_ = std::thread([this] { sync_loop(); });
  return {};
}

// Segments that another one covers were merged by a process that ended before it removed them.
Result<void> SealedSeries::list_segments(std::int64_t& newest) {
  for (const auto& [name, size] : TRY(blobs_->list())) {
    auto found = parse_segment_name(name);
    if (!found) continue;
    found->name.size = size;
    newest = std::max(newest, found->name.last);
    find_or_create(found->run).segments.push_back({found->name});
  }
  for (const auto& [id, run] : runs_) {
    const auto all = run->segments;
    const auto is_covered = [&](const StoredSegment& stored) {
      return std::ranges::any_of(
          all, [&](const StoredSegment& other) { return other.name.covers(stored.name); });
    };
    for (const StoredSegment& stored : all)
      if (is_covered(stored)) garbage_.push_back(text(id, stored.name));
    std::erase_if(run->segments, is_covered);
    std::ranges::sort(run->segments, {}, [](const StoredSegment& s) { return s.name.first; });
  }
  return {};
}

Result<void> SealedSeries::replay(std::int64_t generation, const LogRecord& record) {
  const PointBatch& batch = record.batch;
  const model::RunId& id = batch.attempt.run;
  if (record.removal) {
    const auto found = runs_.find(id);
    if (found == runs_.end()) return {};
    const Run old = found->second;
    open_bytes_ -= old->open_bytes;
    std::erase(open_runs_, old);
    runs_.erase(found);
    // Later points of the same name.
    for (const StoredSegment& stored : old->segments)
      if (stored.name.last >= generation)
        find_or_create(id).segments.push_back(stored);
      else
        garbage_.push_back(text(id, stored.name));
    return {};
  }
  RunState& run = find_or_create(id);
  if (!run.segments.empty() && run.segments.back().name.last >= generation) return {};
  if (!batch.source.empty()) marks_of(run)[batch.source] = batch.sequence;
  Slots slots = slots_for(batch, run);
  std::fill(slots.accepted.begin(), slots.accepted.end(), true);
  add_points(batch, slots, run);
  return {};
}

}  // namespace lockstep::insight::series

namespace lockstep::insight {

Result<std::unique_ptr<SeriesStore>> open_series(const std::filesystem::path& folder,
                                                 std::unique_ptr<Blobs> segments,
                                                 const SeriesLimits& limits) {
  TRY(make_folders(folder));
  Fd lock = TRY(try_lock(folder / "lock"));
  if (!lock)
    return Error{Code::unavailable,
                 format("another process has the series in {} open", folder.string())};
  auto store = std::make_unique<series::SealedSeries>(std::move(lock), std::move(segments), limits);
  if (auto started = store->start(folder); !started)
    return std::move(started).error().with_context("opening the series in " + folder.string());
  return std::unique_ptr<SeriesStore>(std::move(store));
}

Result<std::unique_ptr<SeriesStore>> open_folder_series(const std::filesystem::path& folder,
                                                        const SeriesLimits& limits) {
  return open_series(folder, std::make_unique<FolderBlobs>(folder / "segments"), limits);
}

}  // namespace lockstep::insight
