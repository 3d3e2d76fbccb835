// The points of single ranks are removed after a time. A segment whose newest points are old enough
// is written again without them, as one of the next level, which covers it after a crash.
#include <algorithm>
#include <utility>
#include <vector>

#include "platform/insight/series/detail/sealed_series.h"

namespace lockstep::insight::series {
namespace {

constexpr auto kOfRank = static_cast<std::uint32_t>(RunPart::rank);
constexpr auto kOfAllRanks = static_cast<std::uint32_t>(RunPart::all_ranks);

// For each entry of the index, if it stays. Entries of a metric are neighbours.
std::vector<bool> kept_entries(const Segment& segment) {
  std::vector<bool> kept(segment.series_count(), true);
  for (std::size_t begin = 0; begin < kept.size();) {
    const SeriesEntry lowest = segment.series(begin);
    std::size_t end = begin;
    bool has_statistics = false;
    for (; end < kept.size() && segment.series(end).metric == lowest.metric; ++end)
      has_statistics |= segment.series(end).part == kOfAllRanks;
    for (std::size_t i = begin; has_statistics && i < end; ++i)
      if (const SeriesEntry each = segment.series(i); each.part == kOfRank)
        kept[i] = each.index == lowest.index;
    begin = end;
  }
  return kept;
}

// When the newest of the points was logged of which the segment has statistics.
Result<Time> newest_time(const Segment& segment) {
  Time newest = Time::min();
  for (std::size_t i = 0; i < segment.series_count(); ++i) {
    const SeriesEntry series = segment.series(i);
    if (series.part != kOfAllRanks || series.index != static_cast<int>(Statistic::ranks)) continue;
    for (std::uint32_t chunk = 0; chunk < series.chunks; ++chunk) {
      const ChunkEntry entry = segment.chunk(series.first_chunk + chunk);
      const auto axes = TRY(segment.axes(entry));
      newest = std::max(newest, Time(Duration(TRY(axes.times.at(entry.count - 1)))));
    }
  }
  return newest;
}

Result<void> copy_kept(const Segment& segment, const std::vector<bool>& kept, SegmentWriter& out) {
  for (std::size_t i = 0; i < kept.size(); ++i) {
    if (!kept[i]) continue;
    const SeriesEntry series = segment.series(i);
    out.begin_series(segment.key_of(series), series.epoch);
    for (std::uint32_t chunk = 0; chunk < series.chunks; ++chunk)
      TRY(out.copy(segment, segment.chunk(series.first_chunk + chunk)));
  }
  return out.commit(segment.marks());
}

}  // namespace

void SealedSeries::expire_ranks(Time before) {
  const Lock lock(mutex_);
  if (before <= expire_before_) return;
  expire_before_ = before;
  for (const auto& [id, run] : runs_) expiry_queue_.insert(id);
  changed_.notify_all();
}

// One run at a time. Sealing and merging go first, between its segments.
Result<void> SealedSeries::expire_some() {
  Run run;
  std::vector<StoredSegment> segments;
  Time before{};
  {
    const Lock lock(mutex_);
    if (expiry_queue_.empty()) return {};
    const auto found = runs_.find(*expiry_queue_.begin());
    expiry_queue_.erase(expiry_queue_.begin());
    if (found == runs_.end()) return {};
    run = found->second;
    segments = run->segments;
    before = expire_before_;
  }
  for (const StoredSegment& stored : segments) {
    if (stored.damaged || stored.has_expired) continue;
    (void)seal();  // its error is kept, and it is tried again
    if (auto expired = expire(run, stored, before); !expired)
      return std::move(expired).error().with_context("removing points of ranks of " +
                                                     text(run->id));
  }
  return {};
}

Result<void> SealedSeries::expire(const Run& run, const StoredSegment& stored, Time before) {
  std::shared_ptr<const Segment> segment;
  {
    const Lock lock(mutex_);
    StoredSegment opened = stored;
    if (ending_ || run->removed) return {};
    segment = open_segment(*run, opened);
    if (!segment) return {};  // a problem
  }
  const std::vector<bool> kept = kept_entries(*segment);
  const bool has_expired = std::ranges::find(kept, false) == kept.end();
  const auto mark = [&](const SegmentName& name) LS_REQUIRES(mutex_) {
    const auto found = std::ranges::find(run->segments, name.first,
                                         [](const StoredSegment& s) { return s.name.first; });
    if (found != run->segments.end()) found->has_expired = true;
  };
  if (has_expired) {
    const Lock lock(mutex_);
    mark(stored.name);
    return {};
  }
  if (TRY(newest_time(*segment)) >= before) return {};
  SegmentName name = {
      .first = stored.name.first, .last = stored.name.last, .level = stored.name.level + 1};
  SegmentWriter writer(TRY(blobs_->create(text(run->id, name))));
  TRY(copy_kept(*segment, kept, writer));
  name.size = writer.size();
  const Lock lock(mutex_);
  if (run->removed) {
    garbage_.push_back(text(run->id, name));
    return {};
  }
  replace(*run, {stored}, name);
  mark(name);
  return {};
}

}  // namespace lockstep::insight::series
