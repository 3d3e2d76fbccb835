// Curves over all ranks. The statistics of sealed points are series of their own; those of points
// in memory are made when they are asked for, and when the points are sealed.
//
// A step in memory may have been sealed before, of some ranks or with other values. Then its sealed
// points count, too, so that late, repeated and re-run steps are those of all ranks. A step of
// which sealed points were removed (expiry.cc) keeps its statistics.
#include <algorithm>
#include <optional>
#include <set>
#include <span>
#include <utility>

#include "platform/insight/series/detail/curve.h"
#include "platform/insight/series/detail/sealed_series.h"

namespace lockstep::insight::series {
namespace {

SeriesKey key_of(const std::string& metric, Statistic statistic) {
  return {
      .metric = metric, .part = RunPart::all_ranks, .index = static_cast<std::int32_t>(statistic)};
}

bool has_any(const std::vector<std::int64_t>& steps, std::int64_t first, std::int64_t last) {
  const auto found = std::ranges::lower_bound(steps, first);
  return found != steps.end() && *found <= last;
}

// Calls visit(series, chunk, place of the chunk) for the chunks of all ranks' series of the metric.
template <class Visit>
void visit_chunks_of_ranks(const Segment& segment, const std::string& metric, std::int64_t epoch,
                           const Visit& visit) {
  for (std::size_t i = segment.find({metric, RunPart::rank, 0}).first; i < segment.series_count();
       ++i) {
    const SeriesEntry series = segment.series(i);
    if (series.part != static_cast<std::uint32_t>(RunPart::rank) ||
        segment.metrics()[series.metric] != metric)
      return;
    if (series.epoch != epoch) continue;
    for (std::uint32_t chunk = 0; chunk < series.chunks; ++chunk)
      visit(series, segment.chunk(series.first_chunk + chunk), chunk);
  }
}

// The last step whose statistics the segment has; of a segment without them, the last of any rank.
std::optional<std::int64_t> last_step_in(const Segment& segment, const std::string& metric,
                                         std::int64_t epoch) {
  std::optional<std::int64_t> last;
  const auto take = [&](std::int64_t step) { last = std::max(last.value_or(step), step); };
  const auto [begin, end] = segment.find(key_of(metric, Statistic::ranks));
  for (std::size_t i = begin; i < end; ++i)
    if (const SeriesEntry series = segment.series(i); series.epoch == epoch && series.chunks > 0)
      for (std::uint32_t chunk = 0; chunk < series.chunks; ++chunk)
        take(segment.chunk(series.first_chunk + chunk).last_step);
  if (!last)
    visit_chunks_of_ranks(
        segment, metric, epoch,
        [&](const SeriesEntry&, const ChunkEntry& entry, std::uint32_t) { take(entry.last_step); });
  return last;
}

void add_pieces_of_ranks(const std::shared_ptr<const Segment>& segment, std::uint64_t order,
                         const std::string& metric, std::int64_t epoch,
                         const std::vector<std::int64_t>& steps, PiecesOfRanks& ranks) {
  visit_chunks_of_ranks(
      *segment, metric, epoch,
      [&](const SeriesEntry& series, const ChunkEntry& entry, std::uint32_t chunk) {
        if (!has_any(steps, entry.first_step, entry.last_step)) return;
        ranks[series.index].push_back({.epoch = epoch,
                                       .order = (order << 32) | chunk,
                                       .first_step = entry.first_step,
                                       .last_step = entry.last_step,
                                       .segment = segment,
                                       .entry = entry});
      });
}

// Pieces that overlap: point by point, the last one counts.
void merge_values(std::vector<const Piece*> pieces, std::span<const std::int64_t> steps,
                  std::span<double> values, const Unreadable& unreadable) {
  std::size_t at = 0;
  visit_points(std::move(pieces), steps.front(), unreadable,
               [&](const Piece&, const SeriesPoint& point) {
                 while (at < steps.size() && steps[at] < point.step) ++at;
                 if (at == steps.size()) return false;
                 if (steps[at] == point.step) values[at] = point.value;
                 return true;
               });
}

// The values of the pieces at the steps of a curve.
std::vector<double> values_at(const std::vector<SeriesPoint>& points,
                              const std::vector<Piece>& pieces, const Unreadable& unreadable) {
  std::vector<std::int64_t> steps;
  for (const SeriesPoint& point : points) steps.push_back(point.step);
  std::vector<double> values(points.size());
  std::vector<const Piece*> some;
  for (const Piece& piece : pieces)
    if (has_any(steps, piece.first_step, piece.last_step)) some.push_back(&piece);
  for (const std::vector<const Piece*>& group : groups_of(std::move(some))) {
    const std::int64_t last = std::ranges::max(group, {}, &Piece::last_step)->last_step;
    const auto begin = std::ranges::lower_bound(steps, group.front()->first_step);
    const auto count = static_cast<std::size_t>(std::ranges::upper_bound(steps, last) - begin);
    const auto offset = static_cast<std::size_t>(begin - steps.begin());
    const auto wanted = std::span(steps).subspan(offset, count);
    const auto found = std::span(values).subspan(offset, count);
    if (group.size() > 1 || !group.front()->segment)
      merge_values(group, wanted, found, unreadable);
    else if (const auto read =
                 group.front()->segment->values_at(group.front()->entry, wanted, found);
             !read)
      unreadable(read.error());
  }
  return values;
}

void add_ranks(const std::shared_ptr<const OpenPoints>& frozen, const RanksOfMetrics& all,
               const std::string& metric, std::map<std::int64_t, PiecesOfRanks>& attempts) {
  const auto ranks = all.find(metric);
  if (ranks == all.end()) return;
  for (const std::int32_t rank : ranks->second)
    for (const auto& [epoch, series] : frozen->at({metric, RunPart::rank, rank}))
      if (!series.points.empty())
        attempts[epoch][rank].push_back(
            series.sorted ? piece_in_memory(epoch, kFrozenOrder, frozen, series.points)
                          : piece_of_points(epoch, kFrozenOrder, series.sorted_points()));
}

bool has_several_ranks(const std::map<std::int64_t, PiecesOfRanks>& attempts,
                       const std::vector<std::shared_ptr<const Segment>>& segments,
                       const std::string& metric) {
  std::set<std::int32_t> ranks;
  for (const auto& [epoch, pieces] : attempts)
    for (const auto& [rank, each] : pieces) ranks.insert(rank);
  return ranks.size() > 1 || std::ranges::any_of(segments, [&](const auto& segment) {
           const auto known = segment->ranks_of(metric);
           return known && (known->several || (known->first && !ranks.contains(*known->first)));
         });
}

// The steps in memory of one attempt, with what was sealed of them.
StepTable table_of(PiecesOfRanks& ranks, std::vector<std::int64_t> steps,
                   const std::vector<std::shared_ptr<const Segment>>& segments,
                   const std::string& metric, std::int64_t epoch, const Unreadable& unreadable) {
  std::vector<Piece> counts;
  std::uint64_t order = 0;
  for (const auto& segment : segments) {
    ++order;
    const auto last = last_step_in(*segment, metric, epoch);
    if (!last || *last < steps.front()) continue;
    add_pieces_of_ranks(segment, order, metric, epoch, steps, ranks);
    const auto [begin, end] = segment->find(key_of(metric, Statistic::ranks));
    for (std::size_t i = begin; i < end; ++i)
      if (const SeriesEntry series = segment->series(i); series.epoch == epoch)
        add_chunks(segment, order, series, {steps.front(), steps.back()}, counts);
  }
  StepTable table(std::move(steps));
  for (auto& [rank, pieces] : ranks) table.add(rank, pieces, unreadable);
  std::vector<const Piece*> sealed;
  for (const Piece& piece : counts)
    if (has_any(table.steps(), piece.first_step, piece.last_step)) sealed.push_back(&piece);
  visit_points(std::move(sealed), table.steps().front(), unreadable,
               [&](const Piece&, const SeriesPoint& point) {
                 table.require_sealed(point.step, static_cast<std::int64_t>(point.value));
                 return true;
               });
  return table;
}

// Several ranks must have logged the metric.
std::map<std::int64_t, StepTable> tables_of(
    std::map<std::int64_t, PiecesOfRanks>& attempts,
    const std::vector<std::shared_ptr<const Segment>>& segments, const std::string& metric,
    const StepRange& range, const Unreadable& unreadable) {
  std::map<std::int64_t, StepTable> tables;
  for (auto& [epoch, ranks] : attempts)
    if (auto steps = steps_of(ranks, range); !steps.empty())
      tables.emplace(epoch, table_of(ranks, std::move(steps), segments, metric, epoch, unreadable));
  return tables;
}

// The rank that has all sealed points of a metric of several ranks; none: its statistics are
// sealed, or it has no sealed points.
std::optional<std::int32_t> lone_rank(const std::vector<std::shared_ptr<const Segment>>& segments,
                                      const std::string& metric) {
  std::optional<std::int32_t> lone;
  for (const auto& segment : segments)
    if (const auto ranks = segment->ranks_of(metric); ranks && ranks->first) {
      if (ranks->several || (lone && lone != ranks->first)) return std::nullopt;
      lone = ranks->first;
    }
  return lone;
}

std::vector<Piece> sealed_pieces(const std::vector<std::shared_ptr<const Segment>>& segments,
                                 const SeriesKey& key, std::optional<std::int64_t> attempt,
                                 const StepRange& range) {
  std::vector<Piece> pieces;
  std::uint64_t order = 0;
  for (const auto& segment : segments) {
    ++order;
    const auto [begin, end] = segment->find(key);
    for (std::size_t i = begin; i < end; ++i)
      if (const SeriesEntry series = segment->series(i); !attempt || series.epoch == *attempt)
        add_chunks(segment, order, series, range, pieces);
  }
  return pieces;
}

// The statistic of one rank is its value.
bool is_value(Statistic statistic) {
  return statistic == Statistic::mean || statistic == Statistic::min || statistic == Statistic::max;
}

// The statistic of the points of a chunk that one rank alone has logged.
std::vector<SeriesPoint> constant_points(const Piece& piece, Statistic statistic, std::int32_t rank,
                                         const Unreadable& unreadable) {
  auto read = piece.segment->points(piece.entry);
  if (!read) {
    unreadable(read.error());
    return {};
  }
  std::vector<SeriesPoint> points = std::move(read).value();
  if (is_value(statistic)) return points;
  for (SeriesPoint& point : points) {
    StepStatistics one;
    one.add(rank, point, false);
    point.value = one.value_of(statistic);
  }
  return points;
}

}  // namespace

// The points in memory of one metric, by attempt, and the segments that may have more of its steps.
struct SealedSeries::RanksInMemory {
  std::string metric{};
  std::map<std::int64_t, PiecesOfRanks> attempts{};
  std::vector<std::shared_ptr<const Segment>> segments{};  // shared as in a Piece
};

void SealedSeries::take_segments(RunState& run, RanksInMemory& found, std::int64_t& unreadable) {
  for (StoredSegment& stored : run.segments)
    if (auto segment = open_segment(run, stored))
      found.segments.push_back(std::move(segment));
    else
      ++unreadable;
}

SealedSeries::RanksInMemory SealedSeries::ranks_in_memory(RunState& run, const CurveQuery& query,
                                                          std::int64_t& unreadable) {
  RanksInMemory found{.metric = query.series.metric};
  if (run.frozen) add_ranks(run.frozen, run.frozen_ranks, found.metric, found.attempts);
  if (const auto ranks = run.open_ranks.find(found.metric); ranks != run.open_ranks.end())
    for (const std::int32_t rank : ranks->second)
      for (const auto& [epoch, series] : run.open.at({found.metric, RunPart::rank, rank}))
        if (!series.points.empty())
          found.attempts[epoch][rank].push_back(
              piece_of_points(epoch, kOpenOrder, series.sorted_points()));
  if (query.epoch)
    std::erase_if(found.attempts, [&](const auto& each) { return each.first != *query.epoch; });
  if (!found.attempts.empty()) take_segments(run, found, unreadable);
  return found;
}

// The statistics of the steps in memory. `lone`: several ranks have logged the metric, and all its
// sealed points are of this rank, so that their statistics are not sealed.
struct SealedSeries::RankTables {
  StatisticsByAttempt tables{};
  std::optional<std::int32_t> lone{};
  std::vector<std::shared_ptr<const Segment>> segments{};
};

SealedSeries::RankTables SealedSeries::tables_for(const CurveQuery& query,
                                                  std::int64_t& unreadable) {
  RanksInMemory in_memory;
  {
    const Lock lock(mutex_);
    if (RunState* run = find(query.run)) in_memory = ranks_in_memory(*run, query, unreadable);
  }
  RankTables all{.segments = std::move(in_memory.segments)};
  if (!has_several_ranks(in_memory.attempts, all.segments, in_memory.metric)) return all;
  all.lone = lone_rank(all.segments, in_memory.metric);
  all.tables = tables_of(in_memory.attempts, all.segments, in_memory.metric, query.range,
                         counting(unreadable));
  return all;
}

std::vector<Piece> SealedSeries::pieces_of_statistic(const CurveQuery& query,
                                                     const RankTables& tables,
                                                     std::int32_t statistic,
                                                     std::int64_t& unreadable) {
  const std::string& metric = query.series.metric;
  const auto which = static_cast<Statistic>(statistic);
  std::int64_t known = 0;  // tables_for() counted them
  std::vector<Piece> pieces =
      pieces_of(query.run, key_of(metric, which), query.epoch, query.range, known);
  if (tables.lone) {
    for (Piece& piece : sealed_pieces(tables.segments, {metric, RunPart::rank, *tables.lone},
                                      query.epoch, query.range)) {
      if (is_value(which)) {
        pieces.push_back(std::move(piece));
        continue;
      }
      auto points = constant_points(piece, which, *tables.lone, counting(unreadable));
      if (!points.empty())
        pieces.push_back(piece_of_points(piece.epoch, piece.order, std::move(points)));
    }
  }
  for (const auto& [epoch, table] : tables.tables)
    if (auto points = table.points(which); !points.empty())
      pieces.push_back(piece_of_points(epoch, kOpenOrder, std::move(points)));
  return pieces;
}

std::vector<Piece> SealedSeries::pieces_of_statistic(const CurveQuery& query,
                                                     std::int64_t& unreadable) {
  return pieces_of_statistic(query, tables_for(query, unreadable), query.series.index, unreadable);
}

Result<RankCurves> SealedSeries::rank_curves(const CurveQuery& query) {
  TRY(check_pixels(query));
  RankCurves curves;
  std::int64_t unreadable = 0;
  const RankTables tables = tables_for(query, unreadable);
  const Unreadable count = counting(unreadable);
  const auto pieces_of_one = [&](Statistic statistic) {
    return pieces_of_statistic(query, tables, static_cast<std::int32_t>(statistic), unreadable);
  };
  const auto curve = [&](Statistic statistic) {
    return curve_of(pieces_of_one(statistic), query, count);
  };
  curves.mean = curve(Statistic::mean);
  curves.min = curve(Statistic::min);
  curves.max = curve(Statistic::max);
  curves.spread = curve(Statistic::spread);
  curves.min_ranks = values_at(curves.min.points, pieces_of_one(Statistic::min_rank), count);
  curves.max_ranks = values_at(curves.max.points, pieces_of_one(Statistic::max_rank), count);
  curves.unreadable = unreadable;
  return curves;
}

// The statistics of the points that are being sealed, after those of the rank that was alone.
Result<void> SealedSeries::write_statistics(const Run& run, const std::string& metric,
                                            SegmentWriter& out) {
  std::int64_t unreadable = 0;
  RanksInMemory found{.metric = metric};
  {
    const Lock lock(mutex_);
    if (run->removed || !run->frozen_ranks.contains(metric)) return {};
    add_ranks(run->frozen, run->frozen_ranks, metric, found.attempts);
    take_segments(*run, found, unreadable);
  }
  if (!has_several_ranks(found.attempts, found.segments, metric)) return {};
  const Unreadable count = counting(unreadable);
  const StatisticsByAttempt tables = tables_of(found.attempts, found.segments, metric, {}, count);
  std::map<std::int64_t, std::vector<Piece>> alone;  // by attempt
  const auto lone = lone_rank(found.segments, metric);
  if (lone)
    for (Piece& piece : sealed_pieces(found.segments, {metric, RunPart::rank, *lone}, {}, {}))
      alone[piece.epoch].push_back(std::move(piece));
  std::set<std::int64_t> epochs;
  for (const auto& [epoch, table] : tables) epochs.insert(epoch);
  for (const auto& [epoch, pieces] : alone) epochs.insert(epoch);
  for (const Statistic statistic : kStatistics)
    for (const std::int64_t epoch : epochs) {
      out.begin_series(key_of(metric, statistic), epoch);
      for (const Piece& piece : alone[epoch])
        if (const auto points = constant_points(piece, statistic, *lone, count); !points.empty())
          TRY(out.add_all(points));
      if (const auto table = tables.find(epoch); table != tables.end())
        TRY(out.add_all(table->second.points(statistic)));
    }
  return {};
}

}  // namespace lockstep::insight::series
