#include "platform/insight/series/detail/merge.h"

#include <algorithm>
#include <optional>
#include <string_view>
#include <tuple>
#include <vector>

#include "platform/insight/series/detail/pieces.h"

namespace lockstep::insight::series {
namespace {

// Fewer pending points are merged into the next full chunk instead of becoming a chunk.
constexpr std::size_t kSmallChunk = kChunkPoints / 4;

struct Input {
  std::shared_ptr<const Segment> segment;
  std::size_t next = 0;  // series

  bool done() const { return next == segment->series_count(); }
  auto place() const {
    const SeriesEntry entry = segment->series(next);
    return std::tuple(segment->metrics()[entry.metric], entry.part, entry.index, entry.epoch);
  }
};

class SeriesMerge {
 public:
  explicit SeriesMerge(SegmentWriter& out) : out_(out) {}

  Result<void> merge(const std::vector<Piece>& pieces) {
    std::vector<const Piece*> all;
    for (const Piece& piece : pieces) all.push_back(&piece);
    for (const auto& group : groups_of(std::move(all))) TRY(add(group));
    return put_pending(0);
  }

 private:
  Result<void> add(const std::vector<const Piece*>& group) {
    const Piece& first = *group.front();
    if (group.size() == 1 && first.entry.count == kChunkPoints &&
        (pending_.empty() || pending_.size() >= kSmallChunk)) {
      TRY(put_pending(0));
      return out_.copy(*first.segment, first.entry);
    }
    std::optional<Error> damaged;
    visit_points(
        group, first.first_step, [&](const Error& error) { damaged = error; },
        [&](const Piece&, const SeriesPoint& point) {
          pending_.push_back(point);
          return true;
        });
    if (damaged) return *damaged;
    return put_pending(kChunkPoints - 1);
  }

  // Full chunks, as long as more than `keep` points are pending; then what is left, if keep is 0.
  Result<void> put_pending(std::size_t keep) {
    std::size_t done = 0;
    while (pending_.size() - done > keep) {
      const std::size_t size = std::min(kChunkPoints, pending_.size() - done);
      TRY(out_.add(std::span(pending_).subspan(done, size)));
      done += size;
    }
    pending_.erase(pending_.begin(), pending_.begin() + static_cast<std::ptrdiff_t>(done));
    return {};
  }

  SegmentWriter& out_;
  std::vector<SeriesPoint> pending_;
};

void add_pieces(const Input& input, std::uint64_t order, std::vector<Piece>& pieces) {
  const SeriesEntry series = input.segment->series(input.next);
  for (std::uint32_t i = 0; i < series.chunks; ++i) {
    const ChunkEntry entry = input.segment->chunk(series.first_chunk + i);
    pieces.push_back({.epoch = series.epoch,
                      .order = (order << 32) | i,
                      .first_step = entry.first_step,
                      .last_step = entry.last_step,
                      .segment = input.segment,
                      .entry = entry});
  }
}

}  // namespace

Result<void> merge_segments(std::span<const std::shared_ptr<const Segment>> segments,
                            SegmentWriter& out, const std::function<bool()>& between) {
  std::vector<Input> inputs;
  for (const auto& segment : segments) inputs.push_back({segment});
  while (true) {
    if (!between()) return Error{Code::cancelled, "the merge of segments was stopped"};
    const Input* least = nullptr;
    for (const Input& input : inputs)
      if (!input.done() && (least == nullptr || input.place() < least->place())) least = &input;
    if (least == nullptr) return {};
    const SeriesEntry series = least->segment->series(least->next);
    const auto place = least->place();
    std::vector<Piece> pieces;
    out.begin_series(least->segment->key_of(series), series.epoch);
    for (std::size_t i = 0; i < inputs.size(); ++i)
      if (!inputs[i].done() && inputs[i].place() == place) {
        add_pieces(inputs[i], i, pieces);
        ++inputs[i].next;
      }
    TRY(SeriesMerge(out).merge(pieces));
  }
}

}  // namespace lockstep::insight::series
