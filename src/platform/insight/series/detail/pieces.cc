#include "platform/insight/series/detail/pieces.h"

#include <algorithm>
#include <queue>
#include <tuple>
#include <utility>

namespace lockstep::insight::series {
namespace {

struct Cursor {
  const Piece* piece = nullptr;
  std::vector<SeriesPoint> decoded;  // of a chunk
  std::span<const SeriesPoint> rest;

  auto place() const { return std::tuple(rest.front().step, piece->epoch, piece->order); }
};

struct Later {
  bool operator()(const Cursor* a, const Cursor* b) const { return a->place() > b->place(); }
};

void start(Cursor& cursor, std::int64_t from, const Unreadable& unreadable) {
  cursor.rest = cursor.piece->points;
  if (cursor.piece->segment) {
    auto points = cursor.piece->segment->points(cursor.piece->entry);
    if (!points) {
      unreadable(points.error());
      return;
    }
    cursor.decoded = std::move(points).value();
    cursor.rest = cursor.decoded;
  }
  const auto begin = std::ranges::lower_bound(cursor.rest, from, {}, &SeriesPoint::step);
  cursor.rest = cursor.rest.subspan(static_cast<std::size_t>(begin - cursor.rest.begin()));
}

bool earlier(const Piece* a, const Piece* b) {
  return std::tuple(a->first_step, a->epoch, a->order) <
         std::tuple(b->first_step, b->epoch, b->order);
}

}  // namespace

Piece piece_in_memory(std::int64_t epoch, std::uint64_t order, std::shared_ptr<const void> owner,
                      std::span<const SeriesPoint> points) {
  return {.epoch = epoch,
          .order = order,
          .first_step = points.front().step,
          .last_step = points.back().step,
          .owner = std::move(owner),
          .points = points};
}

Piece piece_of_points(std::int64_t epoch, std::uint64_t order, std::vector<SeriesPoint> points) {
  auto owner = std::make_shared<const std::vector<SeriesPoint>>(std::move(points));
  const std::span<const SeriesPoint> span = *owner;
  return piece_in_memory(epoch, order, std::move(owner), span);
}

void add_chunks(const std::shared_ptr<const Segment>& segment, std::uint64_t order,
                const SeriesEntry& series, const StepRange& range, std::vector<Piece>& pieces) {
  for (std::uint32_t i = 0; i < series.chunks; ++i) {
    const ChunkEntry entry = segment->chunk(series.first_chunk + i);
    if (entry.last_step < range.first || entry.first_step > range.last) continue;
    pieces.push_back({.epoch = series.epoch,
                      .order = (order << 32) | i,
                      .first_step = entry.first_step,
                      .last_step = entry.last_step,
                      .segment = segment,
                      .entry = entry});
  }
}

bool visit_points(std::vector<const Piece*> pieces, std::int64_t from, const Unreadable& unreadable,
                  const VisitPoint& visit) {
  std::ranges::sort(pieces, earlier);
  std::vector<Cursor> cursors(pieces.size());
  std::priority_queue<Cursor*, std::vector<Cursor*>, Later> queue;
  std::size_t started = 0;
  while (true) {
    while (started < pieces.size() &&
           (queue.empty() || pieces[started]->first_step <= queue.top()->rest.front().step)) {
      Cursor& cursor = cursors[started];
      cursor.piece = pieces[started++];
      start(cursor, from, unreadable);
      if (!cursor.rest.empty()) queue.push(&cursor);
    }
    if (queue.empty()) return true;
    Cursor* cursor = queue.top();
    queue.pop();
    if (!visit(*cursor->piece, cursor->rest.front())) return false;
    cursor->rest = cursor->rest.subspan(1);
    if (cursor->rest.empty())
      cursor->decoded = {};
    else
      queue.push(cursor);
  }
}

std::vector<std::vector<const Piece*>> groups_of(std::vector<const Piece*> pieces) {
  std::ranges::sort(pieces, earlier);
  std::vector<std::vector<const Piece*>> groups;
  std::int64_t last = 0;
  for (const Piece* piece : pieces) {
    if (groups.empty() || piece->first_step > last) {
      groups.emplace_back();
      last = piece->last_step;
    }
    last = std::max(last, piece->last_step);
    groups.back().push_back(piece);
  }
  return groups;
}

}  // namespace lockstep::insight::series
