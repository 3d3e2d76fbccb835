// Queries: what they need is taken under the lock, and read without it.
#include <algorithm>
#include <utility>

#include "platform/insight/series/detail/curve.h"
#include "platform/insight/series/detail/sealed_series.h"

namespace lockstep::insight::series {

std::vector<Piece> SealedSeries::pieces_of(const model::RunId& run, const SeriesKey& key,
                                           std::optional<std::int64_t> epoch,
                                           const StepRange& range, std::int64_t& unreadable) {
  const Lock lock(mutex_);
  std::vector<Piece> pieces;
  RunState* state = find(run);
  if (state == nullptr) return pieces;
  const auto wanted = [&](std::int64_t each) { return !epoch || *epoch == each; };
  std::uint64_t order = 0;
  for (StoredSegment& stored : state->segments) {
    ++order;
    const auto segment = open_segment(*state, stored);
    if (!segment) {
      ++unreadable;
      continue;
    }
    const auto [begin, end] = segment->find(key);
    for (std::size_t i = begin; i < end; ++i)
      if (const SeriesEntry series = segment->series(i); wanted(series.epoch))
        add_chunks(segment, order, series, range, pieces);
  }
  if (state->frozen)
    if (const auto found = state->frozen->find(key); found != state->frozen->end())
      for (const auto& [each, series] : found->second)
        if (wanted(each) && !series.points.empty())
          pieces.push_back(series.sorted
                               ? piece_in_memory(each, kFrozenOrder, state->frozen, series.points)
                               : piece_of_points(each, kFrozenOrder, series.sorted_points()));
  if (const auto found = state->open.find(key); found != state->open.end())
    for (const auto& [each, series] : found->second)
      if (wanted(each) && !series.points.empty())
        pieces.push_back(piece_of_points(each, kOpenOrder, series.sorted_points()));
  return pieces;
}

Unreadable SealedSeries::counting(std::int64_t& unreadable) {
  return [this, &unreadable](const Error& error) {
    ++unreadable;
    const Lock lock(mutex_);
    add_problem(error.message);
  };
}

std::vector<Piece> SealedSeries::pieces_of_any(const CurveQuery& query, std::int64_t& unreadable) {
  if (query.series.part == RunPart::all_ranks) return pieces_of_statistic(query, unreadable);
  return pieces_of(query.run, query.series, query.epoch, query.range, unreadable);
}

Result<Curve> SealedSeries::curve(const CurveQuery& query) {
  TRY(check_pixels(query));
  std::int64_t unreadable = 0;
  const auto pieces = pieces_of_any(query, unreadable);
  Curve curve = curve_of(pieces, query, counting(unreadable));
  curve.unreadable = unreadable;
  return curve;
}

Result<std::vector<std::optional<double>>> SealedSeries::values(const ValuesQuery& query) {
  if (query.steps.empty()) return std::vector<std::optional<double>>();
  std::int64_t unreadable = 0;  // problems() names them
  CurveQuery all{.run = query.run, .series = query.series, .epoch = query.epoch, .range = {}};
  all.range.last = query.steps.back();
  return values_of(pieces_of_any(all, unreadable), query.steps, counting(unreadable));
}

Result<PointsPage> SealedSeries::points(const PointsQuery& query) {
  TRY(check_count(query.most, "the number of points"));
  std::int64_t unreadable = 0;
  const auto pieces = pieces_of(query.run, query.series, query.epoch, query.range, unreadable);
  PointsPage page = page_of(pieces, query.range, query.from, query.most, counting(unreadable));
  page.unreadable = unreadable;
  return page;
}

// --- Latest ---

// The last point of a series, not decoded yet.
struct SealedSeries::LatestFound {
  std::int64_t epoch = 0;
  std::int64_t count = 0;
  std::int64_t step = 0;
  std::shared_ptr<const Segment> segment;  // shared as in a Piece
  ChunkEntry entry;
  SeriesPoint point;  // if it is of no segment

  bool precedes(std::int64_t other_epoch, std::int64_t other_step) const {
    return count == 0 || std::pair(epoch, step) <= std::pair(other_epoch, other_step);
  }
};

// From the oldest to the newest, so that the last of equal steps counts.
std::map<SeriesKey, SealedSeries::LatestFound> SealedSeries::find_latest(
    RunState& run, const std::optional<SeriesKey>& after, std::size_t most,
    std::int64_t& unreadable) {
  std::map<SeriesKey, LatestFound> all;
  for (StoredSegment& stored : run.segments) {
    const auto segment = open_segment(run, stored);
    if (!segment) {
      ++unreadable;
      continue;
    }
    std::size_t taken = 0;
    SeriesKey last;
    for (std::size_t i = after ? segment->after(*after) : 0; i < segment->series_count(); ++i) {
      const SeriesEntry series = segment->series(i);
      SeriesKey key = segment->key_of(series);
      if (key.part == RunPart::all_ranks) continue;
      if (key != last && ++taken > most) break;
      LatestFound& found = all[key];
      last = std::move(key);
      for (std::uint32_t chunk = 0; chunk < series.chunks; ++chunk) {
        const ChunkEntry entry = segment->chunk(series.first_chunk + chunk);
        if (found.precedes(series.epoch, entry.last_step)) {
          found.epoch = series.epoch;
          found.step = entry.last_step;
          found.segment = segment;
          found.entry = entry;
        }
        found.count += entry.count;
      }
    }
  }
  for (const OpenPoints* points : {run.frozen.get(), &std::as_const(run.open)})
    if (points)
      for (const auto& [key, attempts] : *points) {
        if (after && key <= *after) continue;
        LatestFound& found = all[key];
        for (const auto& [epoch, series] : attempts)
          for (const SeriesPoint& point : series.points) {
            if (found.precedes(epoch, point.step)) {
              found.epoch = epoch;
              found.step = point.step;
              found.segment = nullptr;
              found.point = point;
            }
            ++found.count;
          }
      }
  return all;
}

Result<LatestPage> SealedSeries::latest(const model::RunId& run,
                                        const std::optional<SeriesKey>& after, std::int64_t most) {
  TRY(check_count(most, "the number of series"));
  LatestPage page;
  std::map<SeriesKey, LatestFound> all;
  {
    const Lock lock(mutex_);
    if (RunState* state = find(run))
      // One more tells that there are more.
      all = find_latest(*state, after, static_cast<std::size_t>(most) + 1, page.unreadable);
  }
  const Unreadable unreadable = counting(page.unreadable);
  for (const auto& [key, found] : all) {
    if (found.count == 0) continue;
    if (std::ssize(page.series) == most) {
      page.more = true;
      break;
    }
    SeriesPoint point = found.point;
    if (found.segment) {
      const auto axes = found.segment->axes(found.entry);
      const auto time = axes ? axes->times.at(found.entry.count - 1) : axes.error();
      if (!time) unreadable(time.error());
      point = {found.step, Time(Duration(time ? *time : 0)), found.entry.last};
    }
    page.series.push_back(
        {.series = key, .epoch = found.epoch, .point = point, .count = found.count});
  }
  return page;
}

// --- Metrics ---

namespace {

void merge_ranks(MetricRanks& both, const MetricRanks& more) {
  if (!more.first) return;
  both.several |= more.several || (both.first && both.first != more.first);
  both.first = std::min(both.first.value_or(*more.first), *more.first);
}

}  // namespace

Result<std::optional<MetricRanks>> SealedSeries::ranks_of(const model::RunId& run,
                                                          const std::string& metric) {
  const Lock lock(mutex_);
  RunState* state = find(run);
  if (state == nullptr) return std::optional<MetricRanks>();
  MetricRanks all{.metric = metric};
  bool found = false;
  for (StoredSegment& stored : state->segments)
    if (const auto segment = open_segment(*state, stored))
      if (const auto ranks = segment->ranks_of(metric)) {
        merge_ranks(all, *ranks);
        found = true;
      }
  for (const RanksOfMetrics* metrics : {&state->frozen_ranks, &state->open_ranks})
    if (const auto ranks = metrics->find(metric); ranks != metrics->end())
      for (const std::int32_t rank : ranks->second) {
        merge_ranks(all, {.metric = {}, .first = rank});
        found = true;
      }
  return found ? std::optional(all) : std::nullopt;
}

Result<std::vector<MetricRanks>> SealedSeries::metrics(const model::RunId& run) {
  const Lock lock(mutex_);
  std::map<std::string, MetricRanks, std::less<>> all;
  const auto add = [&](const MetricRanks& ranks) {
    const auto [known, added] = all.try_emplace(ranks.metric, ranks);
    if (!added) merge_ranks(known->second, ranks);
  };
  RunState* state = find(run);
  if (state == nullptr) return std::vector<MetricRanks>();
  for (StoredSegment& stored : state->segments)
    if (const auto segment = open_segment(*state, stored))
      for (std::size_t i = 0; i < segment->metrics().size(); ++i) add(segment->ranks_of(i));
  for (const RanksOfMetrics* metrics : {&state->frozen_ranks, &state->open_ranks})
    for (const auto& [metric, ranks] : *metrics)
      for (const std::int32_t rank : ranks) add({.metric = metric, .first = rank});
  for (const OpenPoints* points : {state->frozen.get(), &std::as_const(state->open)})
    if (points)
      for (const auto& [key, attempts] : *points)
        if (key.part == RunPart::node) add({.metric = key.metric});
  std::vector<MetricRanks> found;
  for (auto& [name, ranks] : all) found.push_back(std::move(ranks));
  return found;
}

}  // namespace lockstep::insight::series
