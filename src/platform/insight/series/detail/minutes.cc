#include "platform/insight/series/detail/minutes.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <limits>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <utility>

#include "platform/insight/series/detail/pieces.h"

namespace lockstep::insight::series {
namespace {

constexpr std::int64_t kMinute = 60;  // steps
constexpr auto kNode = static_cast<std::uint32_t>(RunPart::node);
constexpr auto kNodeMin = static_cast<std::uint32_t>(RunPart::node_min);
constexpr auto kNodeMax = static_cast<std::uint32_t>(RunPart::node_max);

std::int64_t minute_of(std::int64_t step) {
  const std::int64_t rest = step % kMinute;
  return step - (rest < 0 ? rest + kMinute : rest);
}

// The first step that is not older.
std::int64_t first_kept(Time before) {
  return minute_of(std::chrono::floor<std::chrono::seconds>(before).time_since_epoch().count());
}

// Points at minutes are no more than that.
bool has_seconds(const ChunkEntry& entry) {
  const auto span =
      static_cast<std::uint64_t>(entry.last_step) - static_cast<std::uint64_t>(entry.first_step);
  return entry.count > span / kMinute + 1;
}

bool is_old(const ChunkEntry& entry, std::int64_t kept) {
  return has_seconds(entry) && entry.first_step < kept;
}

// An attempt of a node.
using NodePlace = std::pair<std::int32_t, std::int64_t>;

struct Minutes {
  std::vector<SeriesPoint> mean, min, max;  // by step; of kept points only the mean
};

class Minute {
 public:
  void add(const SeriesPoint& point) {
    if (count_++ == 0) first_ = min_ = max_ = point;
    sum_ += point.value;
    const bool is_first_number = std::isnan(min_.value);
    if (point.value < min_.value || is_first_number) min_.value = point.value;
    if (point.value > max_.value || is_first_number) max_.value = point.value;
  }
  bool is_of(std::int64_t minute) const { return count_ > 0 && minute_of(first_.step) == minute; }
  void put(Minutes& all) {
    if (count_ == 0) return;
    const std::int64_t step = minute_of(first_.step);
    all.mean.push_back({step, first_.time, sum_ / static_cast<double>(count_)});
    all.min.push_back({step, first_.time, min_.value});
    all.max.push_back({step, first_.time, max_.value});
    *this = {};
  }

 private:
  std::int64_t count_ = 0;
  double sum_ = 0;
  SeriesPoint first_, min_, max_;
};

std::vector<Piece> pieces_of_series(const Segment& segment, const SeriesEntry& series) {
  // The segment outlives the pieces.
  const std::shared_ptr<const Segment> shared(std::shared_ptr<const Segment>(), &segment);
  std::vector<Piece> pieces;
  add_chunks(shared, 1, series, {}, pieces);
  return pieces;
}

Result<void> visit_series(const Segment& segment, const SeriesEntry& series,
                          const VisitPoint& visit) {
  const auto pieces = pieces_of_series(segment, series);
  std::vector<const Piece*> all;
  for (const Piece& piece : pieces) all.push_back(&piece);
  std::optional<Error> damaged;
  visit_points(
      std::move(all), std::numeric_limits<std::int64_t>::min(),
      [&](const Error& error) { damaged = error; }, visit);
  if (damaged) return *damaged;
  return {};
}

// `made`: the minutes that were made before.
Result<Minutes> minutes_of(const Segment& segment, const SeriesEntry& series, std::int64_t kept,
                           const std::set<std::int64_t>& made) {
  Minutes all;
  Minute minute;
  TRY(visit_series(segment, series, [&](const Piece&, const SeriesPoint& point) {
    if (point.step >= kept || made.contains(point.step)) {
      minute.put(all);
      all.mean.push_back(point);
      return true;
    }
    if (!minute.is_of(minute_of(point.step))) minute.put(all);
    minute.add(point);
    return true;
  }));
  minute.put(all);
  // A minute that was made before may have had a late point.
  const auto by_step = [](const SeriesPoint& a, const SeriesPoint& b) { return a.step < b.step; };
  std::ranges::stable_sort(all.mean, by_step);
  return all;
}

class MinutesCopy {
 public:
  MinutesCopy(const Segment& segment, const std::vector<bool>& kept, std::int64_t first_kept_step,
              SegmentWriter& out)
      : segment_(segment), kept_(kept), first_kept_(first_kept_step), out_(out) {}

  Result<void> copy() {
    for (std::size_t begin = 0; begin < segment_.series_count();) {
      std::size_t end = begin;
      const std::uint32_t metric = segment_.series(begin).metric;
      while (end < segment_.series_count() && segment_.series(end).metric == metric) ++end;
      TRY(copy_metric(begin, end));
      begin = end;
    }
    return {};
  }

 private:
  Result<void> copy_metric(std::size_t begin, std::size_t end) {
    made_.clear();
    new_.clear();
    for (std::size_t i = begin; i < end; ++i)
      if (const SeriesEntry series = segment_.series(i); series.part == kNodeMin) {
        auto& steps = made_[{series.index, series.epoch}];
        TRY(visit_series(segment_, series, [&](const Piece&, const SeriesPoint& point) {
          steps.insert(point.step);
          return true;
        }));
      }
    for (std::size_t i = begin; i < end; ++i)
      if (const SeriesEntry series = segment_.series(i); series.part < kNodeMin)
        TRY(series.part == kNode ? copy_node(series) : copy_chunks(series));
    TRY(copy_extremes(begin, end, kNodeMin, &Minutes::min));
    return copy_extremes(begin, end, kNodeMax, &Minutes::max);
  }

  Result<void> copy_node(const SeriesEntry& series) {
    bool old = false;
    for (std::uint32_t i = 0; i < series.chunks; ++i)
      old |= is_old(segment_.chunk(series.first_chunk + i), first_kept_);
    if (!old) return copy_chunks(series);
    const NodePlace place{series.index, series.epoch};
    Minutes minutes = TRY(minutes_of(segment_, series, first_kept_, made_[place]));
    out_.begin_series(segment_.key_of(series), series.epoch);
    // In chunks apart, so that those of minutes are not taken for old readings again.
    const std::span<const SeriesPoint> mean = minutes.mean;
    const auto end = std::ranges::lower_bound(mean, first_kept_, {}, &SeriesPoint::step);
    const auto old_points = static_cast<std::size_t>(end - mean.begin());
    TRY(out_.add_all(mean.first(old_points)));
    TRY(out_.add_all(mean.subspan(old_points)));
    new_[place] = std::move(minutes);
    return {};
  }

  // Those that were made before, then the new ones.
  Result<void> copy_extremes(std::size_t begin, std::size_t end, std::uint32_t part,
                             std::vector<SeriesPoint> Minutes::* points) {
    std::map<NodePlace, std::optional<SeriesEntry>> all;
    for (const auto& [place, minutes] : new_)
      if (!(minutes.*points).empty()) all[place];
    for (std::size_t i = begin; i < end; ++i)
      if (const SeriesEntry series = segment_.series(i); series.part == part)
        all[{series.index, series.epoch}] = series;
    SeriesKey key = segment_.key_of(segment_.series(begin));
    key.part = static_cast<RunPart>(part);
    for (const auto& [place, series] : all) {
      key.index = place.first;
      out_.begin_series(key, place.second);
      if (series) TRY(copy_all(*series));
      if (const auto made = new_.find(place); made != new_.end())
        TRY(out_.add_all(made->second.*points));
    }
    return {};
  }

  Result<void> copy_all(const SeriesEntry& series) {
    for (std::uint32_t i = 0; i < series.chunks; ++i)
      TRY(out_.copy(segment_, segment_.chunk(series.first_chunk + i)));
    return {};
  }

  Result<void> copy_chunks(const SeriesEntry& series) {
    bool begun = false;
    for (std::uint32_t i = 0; i < series.chunks; ++i) {
      if (!kept_[series.first_chunk + i]) continue;
      if (!std::exchange(begun, true)) out_.begin_series(segment_.key_of(series), series.epoch);
      TRY(out_.copy(segment_, segment_.chunk(series.first_chunk + i)));
    }
    return {};
  }

  const Segment& segment_;
  const std::vector<bool>& kept_;
  const std::int64_t first_kept_;
  SegmentWriter& out_;
  std::map<NodePlace, std::set<std::int64_t>> made_;  // of the current metric
  std::map<NodePlace, Minutes> new_;
};

}  // namespace

bool has_old_seconds(const Segment& segment, Time before) {
  const std::int64_t kept = first_kept(before);
  std::int64_t old = 0, all = 0;
  for (std::size_t i = 0; i < segment.series_count(); ++i) {
    const SeriesEntry series = segment.series(i);
    if (series.part != kNode) continue;
    for (std::uint32_t chunk = 0; chunk < series.chunks; ++chunk) {
      const ChunkEntry entry = segment.chunk(series.first_chunk + chunk);
      all += entry.count;
      if (has_seconds(entry) && entry.last_step < kept) old += entry.count;
    }
  }
  return old > 0 && 2 * old >= all;
}

Result<void> copy_by_minutes(const Segment& segment, const std::vector<bool>& kept, Time before,
                             SegmentWriter& out) {
  return MinutesCopy(segment, kept, first_kept(before), out).copy();
}

}  // namespace lockstep::insight::series
