#include "platform/insight/series/detail/segment.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <iterator>
#include <tuple>
#include <utility>

#include "base/check.h"
#include "base/format.h"
#include "platform/insight/series/codec/values.h"
#include "platform/insight/series/detail/hash.h"

namespace lockstep::insight::series {
namespace {

constexpr std::uint64_t kMagic = 0x3153455249455358;  // the first and the last bytes of a segment
constexpr std::uint32_t kVersion = 1;
constexpr std::size_t kBufferBytes = 1u << 20;
// Positions of columns are remembered up to this number, about 64 MiB.
constexpr std::size_t kAxesMax = 1u << 19;

struct Footer {
  std::uint64_t index_at = 0;
  std::uint64_t index_size = 0;
  std::uint64_t index_hash = 0;
  std::uint32_t version = kVersion;
  std::uint32_t unused = 0;
  std::uint64_t magic = kMagic;
};

Error damaged_segment(std::string_view what) {
  return {Code::corrupt, format("the segment is damaged: {}", what)};
}

template <class T>
T entry_at(ByteSpan entries, std::size_t index) {
  T entry;
  LS_CHECK((index + 1) * sizeof(T) <= entries.size());
  std::memcpy(&entry, entries.data() + index * sizeof(T), sizeof(T));
  return entry;
}

std::string_view text_of(ByteSpan bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

void put_text(std::string& out, std::string_view text) {
  put_varint(out, text.size());
  out += text;
}

// Columns and roll-ups are checked when they are read.
bool is_valid(const ChunkEntry& entry) {
  const auto is_point = [&](std::uint16_t point) {
    return point < entry.count || point == kNoPoint;
  };
  return entry.count >= 1 && entry.count <= kChunkPoints && entry.first_point < entry.count &&
         is_point(entry.min_point) && is_point(entry.max_point) && is_point(entry.nan_point) &&
         entry.first_step <= entry.last_step;
}

}  // namespace

// --- Reading ---

Result<std::shared_ptr<const Segment>> Segment::open(std::shared_ptr<const Blob> blob) {
  std::shared_ptr<Segment> segment(new Segment(std::move(blob)));
  segment->bytes_ = segment->blob_->bytes();
  TRY(segment->read_index());
  return std::shared_ptr<const Segment>(std::move(segment));
}

ByteSpan Segment::slice(std::uint64_t at, std::uint64_t size) const {
  if (at > bytes_.size() || size > bytes_.size() - at) return {};
  return bytes_.subspan(at, size);
}

Result<void> Segment::read_index() {
  if (bytes_.size() < sizeof kMagic + sizeof(Footer)) return damaged_segment("it was cut");
  const auto footer = entry_at<Footer>(bytes_.last(sizeof(Footer)), 0);
  if (footer.magic != kMagic) return damaged_segment("it has no footer");
  if (footer.version != kVersion)
    return Error{Code::corrupt, format("the segment has version {}, and this Lockstep reads {}",
                                       footer.version, kVersion)};
  const ByteSpan index = slice(footer.index_at, footer.index_size);
  if (index.size() != footer.index_size || hash_of(index) != footer.index_hash)
    return damaged_segment("its index is not what was written");
  ByteReader reader(index);
  const auto text = [&] { return text_of(reader.take(reader.varint())); };
  for (std::uint64_t left = reader.varint(); left > 0 && reader.ok(); --left)
    metrics_.push_back(text());
  for (std::uint64_t left = reader.varint(); left > 0 && reader.ok(); --left) {
    const std::string source(text());
    marks_[source] = reader.signed_varint();
  }
  series_count_ = reader.varint();
  chunk_count_ = reader.varint();
  series_ = reader.take(series_count_ * sizeof(SeriesEntry));
  chunks_ = reader.take(chunk_count_ * sizeof(ChunkEntry));
  if (!reader.ok() || !reader.rest().empty()) return damaged_segment("its index is cut");
  for (std::size_t i = 0; i < series_count_; ++i) {
    const SeriesEntry entry = series(i);
    if (entry.metric >= metrics_.size() || entry.first_chunk > chunk_count_ ||
        entry.chunks > chunk_count_ - entry.first_chunk)
      return damaged_segment("its series have no chunks");
  }
  return {};
}

SeriesEntry Segment::series(std::size_t index) const {
  return entry_at<SeriesEntry>(series_, index);
}
ChunkEntry Segment::chunk(std::uint64_t index) const {
  return entry_at<ChunkEntry>(chunks_, index);
}

SeriesKey Segment::key_of(const SeriesEntry& entry) const {
  return {std::string(metrics_[entry.metric]), static_cast<RunPart>(entry.part), entry.index};
}

std::pair<std::size_t, std::size_t> Segment::find(const SeriesKey& key) const {
  const auto metric = std::ranges::lower_bound(metrics_, key.metric);
  if (metric == metrics_.end() || *metric != key.metric) return {0, 0};
  const std::tuple wanted(static_cast<std::uint32_t>(metric - metrics_.begin()),
                          static_cast<std::uint32_t>(key.part), key.index);
  const auto first_not = [&](auto before) {
    std::size_t begin = 0, end = series_count_;
    while (begin < end) {
      const std::size_t middle = begin + (end - begin) / 2;
      const SeriesEntry entry = series(middle);
      if (before(std::tuple(entry.metric, entry.part, entry.index)))
        begin = middle + 1;
      else
        end = middle;
    }
    return begin;
  };
  return {first_not([&](const auto& each) { return each < wanted; }),
          first_not([&](const auto& each) { return each <= wanted; })};
}

MetricRanks Segment::ranks_of(std::size_t metric) const {
  MetricRanks ranks{.metric = std::string(metrics_[metric])};
  const auto is_of = [&](std::size_t at, RunPart part) {
    return at < series_count_ && series(at).metric == metric &&
           series(at).part == static_cast<std::uint32_t>(part);
  };
  if (const std::size_t first = find({ranks.metric, RunPart::rank, 0}).first;
      is_of(first, RunPart::rank)) {
    ranks.first = series(first).index;
    ranks.several = is_of(find({ranks.metric, RunPart::rank, *ranks.first}).second, RunPart::rank);
  }
  ranks.several |= is_of(find({ranks.metric, RunPart::all_ranks, 0}).first, RunPart::all_ranks);
  return ranks;
}

std::optional<MetricRanks> Segment::ranks_of(std::string_view metric) const {
  const auto found = std::ranges::lower_bound(metrics_, metric);
  if (found == metrics_.end() || *found != metric) return std::nullopt;
  return ranks_of(static_cast<std::size_t>(found - metrics_.begin()));
}

std::size_t Segment::after(const SeriesKey& key) const {
  std::size_t begin = 0, end = series_count_;
  while (begin < end) {
    const std::size_t middle = begin + (end - begin) / 2;
    if (key_of(series(middle)) <= key)
      begin = middle + 1;
    else
      end = middle;
  }
  return begin;
}

Result<Segment::Axes> Segment::axes(const ChunkEntry& entry) const {
  const ByteSpan steps = slice(entry.steps_at, entry.steps_size);
  const ByteSpan times = slice(entry.times_at, entry.times_size);
  if (!is_valid(entry) || hash_of(times, hash_of(steps)) != entry.axes_hash)
    return damaged_segment("steps and times of a chunk are not what was written");
  return Axes{TRY(IntegerColumn::parse(steps, entry.count)),
              TRY(IntegerColumn::parse(times, entry.count))};
}

Result<Rollups> Segment::rollups(const ChunkEntry& entry) const {
  const ByteSpan bytes = slice(entry.rollups_at, entry.rollups_size);
  if (!is_valid(entry) || hash_of(bytes) != entry.rollups_hash)
    return damaged_segment("roll-ups of a chunk are not what was written");
  return decode_rollups(bytes, blocks_of(entry.count));
}

Result<std::vector<double>> Segment::values(const ChunkEntry& entry) const {
  const ByteSpan bytes = slice(entry.values_at, entry.values_size);
  if (hash_of(bytes) != entry.values_hash)
    return damaged_segment("values of a chunk are not what was written");
  std::vector<double> values(entry.count);
  TRY(decode_values(bytes, values));
  return values;
}

Result<void> Segment::values_at(const ChunkEntry& entry, std::span<const std::int64_t> steps,
                                std::span<double> found) const {
  const Axes axes = TRY(this->axes(entry));
  const std::vector<double> values = TRY(this->values(entry));
  const std::size_t blocks = blocks_of(entry.count);
  std::array<std::int64_t, kBlockPoints> decoded{};
  std::size_t block = 0, decoded_block = blocks;
  for (std::size_t i = 0; i < steps.size(); ++i) {
    while (block + 1 < blocks && axes.steps.start(block + 1) <= steps[i]) ++block;
    const std::size_t first = block * kBlockPoints;
    const auto in_block =
        std::span(decoded).first(std::min<std::size_t>(kBlockPoints, entry.count - first));
    if (std::exchange(decoded_block, block) != block) TRY(axes.steps.decode_block(block, in_block));
    const auto after = std::ranges::upper_bound(in_block, steps[i]);
    if (after != in_block.begin() && *std::prev(after) == steps[i])
      found[i] = values[first + static_cast<std::size_t>(after - in_block.begin()) - 1];
  }
  return {};
}

Result<std::vector<SeriesPoint>> Segment::points(const ChunkEntry& entry) const {
  const Axes axes = TRY(this->axes(entry));
  const std::vector<double> values = TRY(this->values(entry));
  std::vector<std::int64_t> steps(entry.count), times(entry.count);
  TRY(axes.steps.decode(steps));
  TRY(axes.times.decode(times));
  std::vector<SeriesPoint> points(entry.count);
  for (std::size_t i = 0; i < points.size(); ++i)
    points[i] = {steps[i], Time(Duration(times[i])), values[i]};
  return points;
}

// --- Writing ---

SegmentWriter::SegmentWriter(std::unique_ptr<BlobWriter> blob) : blob_(std::move(blob)) {
  put_fixed(buffer_, kMagic);
}

void SegmentWriter::begin_series(const SeriesKey& key, std::int64_t epoch) {
  if (metrics_.empty() || metrics_.back() != key.metric) metrics_.push_back(key.metric);
  series_.push_back({.metric = static_cast<std::uint32_t>(metrics_.size() - 1),
                     .part = static_cast<std::uint32_t>(key.part),
                     .index = key.index,
                     .epoch = epoch,
                     .first_chunk = chunks_.size()});
}

Result<void> SegmentWriter::flush() {
  TRY(blob_->write(bytes_of(buffer_)));
  written_ += buffer_.size();
  buffer_.clear();
  return {};
}

// Its position.
Result<std::uint64_t> SegmentWriter::write(ByteSpan bytes) {
  const std::uint64_t at = written_ + buffer_.size();
  buffer_ += text_of(bytes);
  if (buffer_.size() >= kBufferBytes) TRY(flush());
  return at;
}

Result<std::uint64_t> SegmentWriter::put_axis(ByteSpan column) {
  const auto hash = wide_hash_of(column);
  if (const auto known = axes_.find(hash); known != axes_.end()) return known->second;
  if (axes_.size() >= kAxesMax) axes_.clear();
  const std::uint64_t at = TRY(write(column));
  axes_.emplace(hash, at);
  return at;
}

Result<void> SegmentWriter::put(ChunkEntry entry, ByteSpan steps, ByteSpan times, ByteSpan values,
                                ByteSpan rollups) {
  LS_CHECK(!series_.empty());
  entry.steps_at = TRY(put_axis(steps));
  entry.times_at = TRY(put_axis(times));
  entry.values_at = TRY(write(values));
  entry.rollups_at = rollups_.size();  // index() adds the position of the roll-ups
  rollups_ += text_of(rollups);
  entry.steps_size = static_cast<std::uint32_t>(steps.size());
  entry.times_size = static_cast<std::uint32_t>(times.size());
  entry.values_size = static_cast<std::uint32_t>(values.size());
  entry.rollups_size = static_cast<std::uint32_t>(rollups.size());
  entry.axes_hash = hash_of(times, hash_of(steps));
  entry.values_hash = hash_of(values);
  entry.rollups_hash = hash_of(rollups);
  ++series_.back().chunks;
  chunks_.push_back(entry);
  return {};
}

Result<void> SegmentWriter::add(std::span<const SeriesPoint> points) {
  const EncodedChunk chunk = encode_chunk(points);
  return put(chunk.entry, bytes_of(chunk.steps), bytes_of(chunk.times), bytes_of(chunk.values),
             bytes_of(chunk.rollups));
}

Result<void> SegmentWriter::add_all(std::span<const SeriesPoint> points) {
  while (!points.empty()) {
    const std::size_t size = std::min(kChunkPoints, points.size());
    TRY(add(points.first(size)));
    points = points.subspan(size);
  }
  return {};
}

Result<void> SegmentWriter::copy(const Segment& from, const ChunkEntry& entry) {
  TRY(from.axes(entry));
  const ByteSpan values = from.slice(entry.values_at, entry.values_size);
  const ByteSpan rollups = from.slice(entry.rollups_at, entry.rollups_size);
  if (hash_of(values) != entry.values_hash || hash_of(rollups) != entry.rollups_hash)
    return damaged_segment("a chunk is not what was written");
  return put(entry, from.slice(entry.steps_at, entry.steps_size),
             from.slice(entry.times_at, entry.times_size), values, rollups);
}

std::string SegmentWriter::index(const Marks& marks) const {
  std::string out;
  put_varint(out, metrics_.size());
  for (const std::string& metric : metrics_) put_text(out, metric);
  put_varint(out, marks.size());
  for (const auto& [source, sequence] : marks) {
    put_text(out, source);
    put_signed(out, sequence);
  }
  put_varint(out, series_.size());
  put_varint(out, chunks_.size());
  for (const SeriesEntry& entry : series_) put_fixed(out, entry);
  for (ChunkEntry entry : chunks_) {
    entry.rollups_at += written_ + buffer_.size() - rollups_.size();
    put_fixed(out, entry);
  }
  return out;
}

Result<void> SegmentWriter::commit(const Marks& marks) {
  TRY(write(bytes_of(rollups_)));
  // index() counts back from the end of the roll-ups, which are the last bytes so far.
  const std::string index = this->index(marks);
  Footer footer;
  footer.index_at = TRY(write(bytes_of(index)));
  footer.index_size = index.size();
  footer.index_hash = hash_of(bytes_of(index));
  put_fixed(buffer_, footer);
  TRY(flush());
  return blob_->commit();
}

}  // namespace lockstep::insight::series
