#include "platform/insight/series/detail/curve.h"

#include <algorithm>
#include <functional>
#include <limits>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "base/format.h"
#include "platform/insight/series/detail/pixels.h"

namespace lockstep::insight::series {
namespace {

// Roll-ups serve chunks with so many points for each pixel: a block is at most a quarter of a
// pixel.
constexpr std::int64_t kPointsForRollups = 4 * kBlockPoints;
// Curves keep no bits of a NaN.
constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();

std::vector<const Piece*> pieces_in(std::span<const Piece> pieces, const StepRange& range) {
  std::vector<const Piece*> some;
  for (const Piece& piece : pieces)
    if (piece.last_step >= range.first && piece.first_step <= range.last) some.push_back(&piece);
  return some;
}

// An end that the query does not give is that of the points.
StepRange drawn_range(const std::vector<const Piece*>& pieces, const StepRange& range) {
  StepRange stored = {pieces.front()->first_step, pieces.front()->last_step};
  for (const Piece* piece : pieces) {
    stored.first = std::min(stored.first, piece->first_step);
    stored.last = std::max(stored.last, piece->last_step);
  }
  const StepRange all;  // a bound that was not given
  return {range.first != all.first ? range.first : stored.first,
          range.last != all.last ? range.last : stored.last};
}

// The indices are those of points of the chunk.
bool have_points(const Rollups& rollups, std::uint32_t count) {
  const auto last_size = static_cast<std::uint8_t>((count - 1) % kBlockPoints + 1);
  const std::size_t last = blocks_of(count) - 1;
  for (const auto* each : {&rollups.min_point, &rollups.max_point, &rollups.nan_point})
    if ((*each)[last] >= last_size && (*each)[last] != Rollups::kNone) return false;
  return true;
}

class CurveMaker {
 public:
  CurveMaker(const StepRange& range, const CurveQuery& query, const Unreadable& unreadable)
      : range_(range),
        unreadable_(unreadable),
        pixels_(range, query.pixels, query.borders, unreadable) {}

  void add(const std::vector<const Piece*>& group) {
    if (group.size() > 1 || !add_summarized(*group.front())) add_points(group);
  }
  Curve finish() { return pixels_.finish(); }

 private:
  // The last point of each step counts.
  void add_points(const std::vector<const Piece*>& group) {
    std::optional<SeriesPoint> pending;
    visit_points(group, range_.first, unreadable_, [&](const Piece&, const SeriesPoint& point) {
      if (point.step > range_.last) return false;
      if (pending && pending->step != point.step) pixels_.add(*pending);
      pending = point;
      return true;
    });
    if (pending) pixels_.add(*pending);
  }

  // False if its points are needed.
  bool add_summarized(const Piece& piece) {
    const ChunkEntry& entry = piece.entry;
    if (!piece.segment || piece.first_step < range_.first || piece.last_step > range_.last)
      return false;
    const std::int64_t pixels =
        pixels_.pixel_of(piece.last_step) - pixels_.pixel_of(piece.first_step) + 1;
    if (pixels == 1) {
      add_chunk(piece);
      return true;
    }
    if (entry.rollups_size == 0 || entry.count < pixels * kPointsForRollups) return false;
    return add_blocks(piece);
  }

  void add_chunk(const Piece& piece) {
    const ChunkEntry& entry = piece.entry;
    const auto candidate = [&](double value, std::uint32_t index) {
      return Pixels::Candidate{.value = value, .piece = &piece, .index = index};
    };
    const auto some = [&](double value, std::uint16_t index) {
      return index == kNoPoint ? std::nullopt : std::optional(candidate(value, index));
    };
    pixels_.add({.step = piece.first_step,
                 .count = entry.distinct,
                 .first = candidate(entry.first, entry.first_point),
                 .last = candidate(entry.last, entry.count - 1),
                 .min = some(entry.min, entry.min_point),
                 .max = some(entry.max, entry.max_point),
                 .nan = some(kNaN, entry.nan_point)});
  }

  // False if the chunk's points are needed, or none of it can be read.
  bool add_blocks(const Piece& piece) {
    const auto rollups = piece.segment->rollups(piece.entry);
    const auto axes = pixels_.axes_of(piece);
    if (!rollups || !axes) return false;  // decoding the points reports what is damaged
    const std::uint32_t count = piece.entry.count;
    if (!have_points(*rollups, count)) return false;
    for (std::uint32_t block = 0; block < blocks_of(count); ++block) {
      const auto begin = static_cast<std::uint32_t>(block * kBlockPoints);
      const auto size = std::min(static_cast<std::uint32_t>(kBlockPoints), count - begin);
      const auto candidate = [&](double value, std::uint32_t index) {
        return Pixels::Candidate{.value = value, .piece = &piece, .index = begin + index};
      };
      const auto some = [&](double value, std::uint8_t index) {
        return index == Rollups::kNone ? std::nullopt : std::optional(candidate(value, index));
      };
      pixels_.add({.step = axes->steps.start(block),
                   .count = size,
                   .first = candidate(rollups->first[block], 0),
                   .last = candidate(rollups->last[block], size - 1),
                   .min = some(rollups->min[block], rollups->min_point[block]),
                   .max = some(rollups->max[block], rollups->max_point[block]),
                   .nan = some(kNaN, rollups->nan_point[block])});
    }
    return true;
  }

  const StepRange range_;
  const Unreadable& unreadable_;
  Pixels pixels_;
};

}  // namespace

Result<void> check_count(std::int64_t count, std::string_view what) {
  constexpr std::int64_t kAnswerMax = 100'000;
  if (count >= 1 && count <= kAnswerMax) return {};
  return Error{Code::invalid, format("{} must be 1 to {}, got {}", what, kAnswerMax, count)};
}

Result<void> check_pixels(const CurveQuery& query) {
  TRY(check_count(query.borders.empty() ? query.pixels : std::ssize(query.borders) + 1,
                  "the number of pixels"));
  if (std::ranges::adjacent_find(query.borders, std::greater_equal()) != query.borders.end())
    return Error{Code::invalid, "the borders of pixels must ascend"};
  return {};
}

Curve curve_of(std::span<const Piece> pieces, const CurveQuery& query,
               const Unreadable& unreadable) {
  std::vector<const Piece*> some = pieces_in(pieces, query.range);
  if (some.empty()) return {};
  CurveMaker maker(drawn_range(some, query.range), query, unreadable);
  for (const auto& group : groups_of(std::move(some))) maker.add(group);
  return maker.finish();
}

// A group serves the steps up to the next one; it is decoded only if there are any.
std::vector<std::optional<double>> values_of(std::span<const Piece> pieces,
                                             std::span<const std::int64_t> steps,
                                             const Unreadable& unreadable) {
  std::vector<std::optional<double>> values(steps.size());
  const auto groups = groups_of(pieces_in(pieces, {}));
  for (std::size_t i = 0; i < groups.size(); ++i) {
    const auto place_of = [&](std::int64_t step) {
      return static_cast<std::size_t>(std::ranges::lower_bound(steps, step) - steps.begin());
    };
    std::size_t at = place_of(groups[i].front()->first_step);
    const std::size_t end =
        i + 1 < groups.size() ? place_of(groups[i + 1].front()->first_step) : steps.size();
    if (at >= end) continue;
    std::optional<double> last;
    visit_points(groups[i], groups[i].front()->first_step, unreadable,
                 [&](const Piece&, const SeriesPoint& point) {
                   while (at < end && steps[at] < point.step) values[at++] = last;
                   last = point.value;
                   return at < end;
                 });
    while (at < end) values[at++] = last;
  }
  return values;
}

PointsPage page_of(std::span<const Piece> pieces, const StepRange& range, const PointCursor& from,
                   std::int64_t most, const Unreadable& unreadable) {
  std::set<std::int64_t> epochs;
  for (const Piece& piece : pieces)
    if (piece.epoch >= from.epoch) epochs.insert(piece.epoch);
  PointsPage page;
  PointCursor at = from;
  for (const std::int64_t epoch : epochs) {
    if (epoch != at.epoch) at = {.epoch = epoch};
    std::vector<const Piece*> some;
    const std::int64_t first = std::max(range.first, at.step);
    for (const Piece& piece : pieces)
      if (piece.epoch == epoch && piece.last_step >= first && piece.first_step <= range.last)
        some.push_back(&piece);
    std::int64_t skip = at.skip;
    const bool complete =
        visit_points(some, first, unreadable, [&](const Piece&, const SeriesPoint& point) {
          if (point.step > range.last) return true;
          if (point.step != at.step) {
            at = {epoch, point.step, 0};
            skip = 0;
          }
          if (skip > 0) return --skip, true;
          if (std::ssize(page.points) == most) return false;
          page.points.push_back({epoch, point});
          ++at.skip;
          return true;
        });
    if (!complete) {
      page.next = at;
      return page;
    }
  }
  return page;
}

}  // namespace lockstep::insight::series
