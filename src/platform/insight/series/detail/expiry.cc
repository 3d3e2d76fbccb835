// The points of single ranks are removed after a time, and those of nodes become one for each
// minute. A segment whose newest points are old enough is written again without them, as one of the
// next level, which covers it after a crash.
#include <algorithm>
#include <map>
#include <utility>
#include <vector>

#include "platform/insight/series/detail/minutes.h"
#include "platform/insight/series/detail/sealed_series.h"

namespace lockstep::insight::series {
namespace {

constexpr auto kOfRank = static_cast<std::uint32_t>(RunPart::rank);
constexpr auto kOfAllRanks = static_cast<std::uint32_t>(RunPart::all_ranks);

// For each chunk, if it stays: those of the lowest rank of a metric, and those with steps that the
// statistics of their attempt do not cover. Entries of a metric are neighbours.
std::vector<bool> kept_chunks(const Segment& segment) {
  std::vector<bool> kept;
  for (std::size_t begin = 0; begin < segment.series_count();) {
    const SeriesEntry lowest = segment.series(begin);
    std::size_t end = begin;
    std::map<std::int64_t, StepRange> covered;  // by attempt
    for (; end < segment.series_count() && segment.series(end).metric == lowest.metric; ++end) {
      const SeriesEntry each = segment.series(end);
      kept.resize(std::max<std::size_t>(kept.size(), each.first_chunk + each.chunks), true);
      if (each.part != kOfAllRanks || each.index != static_cast<int>(Statistic::ranks)) continue;
      for (std::uint32_t chunk = 0; chunk < each.chunks; ++chunk) {
        const ChunkEntry entry = segment.chunk(each.first_chunk + chunk);
        const StepRange steps{entry.first_step, entry.last_step};
        StepRange& range = covered.try_emplace(each.epoch, steps).first->second;
        range = {std::min(range.first, steps.first), std::max(range.last, steps.last)};
      }
    }
    for (std::size_t i = begin; i < end; ++i) {
      const SeriesEntry each = segment.series(i);
      const auto range = covered.find(each.epoch);
      if (each.part != kOfRank || each.index == lowest.index || range == covered.end()) continue;
      for (std::uint32_t chunk = 0; chunk < each.chunks; ++chunk) {
        const ChunkEntry entry = segment.chunk(each.first_chunk + chunk);
        kept[each.first_chunk + chunk] =
            entry.first_step < range->second.first || entry.last_step > range->second.last;
      }
    }
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

// Keeps the chunks of ranks that have points of one of these times. An unreadable one stays.
void keep_ranges(const Segment& segment, const std::vector<TimeRange>& ranges,
                 std::vector<bool>& kept) {
  if (ranges.empty()) return;
  for (std::size_t i = 0; i < kept.size(); ++i) {
    if (kept[i]) continue;
    const ChunkEntry entry = segment.chunk(i);
    const auto axes = segment.axes(entry);
    const auto first = axes ? axes->times.at(0) : axes.error();
    const auto last = axes ? axes->times.at(entry.count - 1) : axes.error();
    kept[i] = !first || !last || std::ranges::any_of(ranges, [&](const TimeRange& range) {
      return Time(Duration(*first)) <= range.last && Time(Duration(*last)) >= range.first;
    });
  }
}

Result<void> copy_kept(const Segment& segment, const std::vector<bool>& kept, SegmentWriter& out) {
  for (std::size_t i = 0; i < segment.series_count(); ++i) {
    const SeriesEntry series = segment.series(i);
    bool begun = false;
    for (std::uint32_t chunk = 0; chunk < series.chunks; ++chunk) {
      if (!kept[series.first_chunk + chunk]) continue;
      if (!std::exchange(begun, true)) out.begin_series(segment.key_of(series), series.epoch);
      TRY(out.copy(segment, segment.chunk(series.first_chunk + chunk)));
    }
  }
  return {};
}

}  // namespace

void SealedSeries::expire(Expiry expiry) {
  const Lock lock(mutex_);
  if (expiry_ && expiry.ranks <= expiry_->ranks && expiry.nodes <= expiry_->nodes) return;
  expiry_ = std::make_shared<const Expiry>(std::move(expiry));
  for (const auto& [id, run] : runs_) expiry_queue_.insert(id);
  changed_.notify_all();
}

// One run at a time. Sealing and merging go first, between its segments.
Result<void> SealedSeries::expire_some() {
  Run run;
  std::vector<StoredSegment> segments;
  std::shared_ptr<const Expiry> expiry;
  {
    const Lock lock(mutex_);
    if (expiry_queue_.empty()) return {};
    const auto found = runs_.find(*expiry_queue_.begin());
    expiry_queue_.erase(expiry_queue_.begin());
    if (found == runs_.end()) return {};
    run = found->second;
    segments = run->segments;
    expiry = expiry_;
  }
  Result<void> first_failure;
  for (const StoredSegment& stored : segments) {
    if (stored.damaged) continue;
    (void)seal();  // its error is kept, and it is tried again
    if (auto expired = expire(run, stored, *expiry); !expired && first_failure)
      first_failure =
          std::move(expired).error().with_context("removing old points of " + text(run->id));
  }
  return first_failure;
}

Result<void> SealedSeries::expire(const Run& run, const StoredSegment& stored,
                                  const Expiry& expiry) {
  std::shared_ptr<const Segment> segment;
  {
    const Lock lock(mutex_);
    StoredSegment opened = stored;
    if (ending_ || run->removed) return {};
    segment = open_segment(*run, opened);
    if (!segment) return {};  // a problem
  }
  std::vector<bool> kept(segment->chunk_count(), true);
  bool has_expired = stored.has_expired;
  if (!has_expired) {
    kept = kept_chunks(*segment);
    if (const auto ranges = expiry.kept.find(run->id); ranges != expiry.kept.end())
      keep_ranges(*segment, ranges->second, kept);
    has_expired = std::ranges::find(kept, false) == kept.end();
    if (!has_expired && TRY(newest_time(*segment)) >= expiry.ranks) kept.assign(kept.size(), true);
  }
  const bool thins = has_old_seconds(*segment, expiry.nodes);
  const bool removes = std::ranges::find(kept, false) != kept.end();
  const auto mark = [&](const SegmentName& name) LS_REQUIRES(mutex_) {
    const auto found = std::ranges::find(run->segments, name.first,
                                         [](const StoredSegment& s) { return s.name.first; });
    if (found != run->segments.end()) found->has_expired = has_expired || removes;
  };
  if (!removes && !thins) {
    const Lock lock(mutex_);
    mark(stored.name);
    return {};
  }
  SegmentName name = {
      .first = stored.name.first, .last = stored.name.last, .level = stored.name.level + 1};
  SegmentWriter writer(TRY(blobs_->create(text(run->id, name))));
  TRY(thins ? copy_by_minutes(*segment, kept, expiry.nodes, writer)
            : copy_kept(*segment, kept, writer));
  TRY(writer.commit(segment->marks()));
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
