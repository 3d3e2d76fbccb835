// Piece: points of one series and attempt, in a chunk or in memory; and the merge of pieces.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"
#include "platform/insight/series/detail/segment.h"
#include "platform/insight/series/series_store.h"

namespace lockstep::insight::series {

struct Piece {
  std::int64_t epoch = 0;
  std::uint64_t order = 0;  // a later piece of the same attempt has a higher one
  std::int64_t first_step = 0;
  std::int64_t last_step = 0;
  // A chunk of this segment, or points by step. Shared: a query outlives the removal of its run.
  std::shared_ptr<const Segment> segment{};
  ChunkEntry entry{};
  std::shared_ptr<const void> owner{};
  std::span<const SeriesPoint> points{};
};

// Orders of points in memory are above those of all chunks.
inline constexpr std::uint64_t kFrozenOrder = std::uint64_t{1} << 62, kOpenOrder = kFrozenOrder + 1;

// At least one point, by step.
Piece piece_in_memory(std::int64_t epoch, std::uint64_t order, std::shared_ptr<const void> owner,
                      std::span<const SeriesPoint> points);
Piece piece_of_points(std::int64_t epoch, std::uint64_t order, std::vector<SeriesPoint> points);
// The chunks of a series that touch the range. A later segment has a higher order.
void add_chunks(const std::shared_ptr<const Segment>& segment, std::uint64_t order,
                const SeriesEntry& series, const StepRange& range, std::vector<Piece>& pieces);

// Called with the reason for each piece that cannot be read; the others are used.
using Unreadable = std::function<void(const Error&)>;

// Return false to stop.
using VisitPoint = std::function<bool(const Piece& piece, const SeriesPoint& point)>;

// All points from this step on, by step, then attempt, then order. Decodes each chunk when its
// first step is reached. False if visit stopped it.
bool visit_points(std::vector<const Piece*> pieces, std::int64_t from, const Unreadable& unreadable,
                  const VisitPoint& visit);

// Groups of pieces, by their first step. Groups share no steps.
std::vector<std::vector<const Piece*>> groups_of(std::vector<const Piece*> pieces);

}  // namespace lockstep::insight::series
