// Segment: chunks of one run as one immutable object (blobs.h).
//
//   magic | columns of the chunks | roll-ups | index | footer
//   index: names of metrics, marks of sources, series, entries of chunks
//   footer: position, size and hash of the index, version, magic
//
// Equal columns of steps or times are stored once. Series are in the order of (metric, part, index,
// attempt). Numbers are little-endian.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/result.h"
#include "platform/insight/series/blobs.h"
#include "platform/insight/series/detail/chunk.h"
#include "platform/insight/series/series_store.h"

namespace lockstep::insight::series {

using Marks = std::map<std::string, std::int64_t>;  // the highest sequence by source

// A series in the index, as it is stored; the metric is an index in the names.
struct SeriesEntry {
  std::uint32_t metric = 0;
  std::uint32_t part = 0;
  std::int32_t index = 0;
  std::uint32_t chunks = 0;
  std::int64_t epoch = 0;
  std::uint64_t first_chunk = 0;
};
static_assert(sizeof(SeriesEntry) == 32);

class Segment {
 public:
  // Reads the index. Code::corrupt with the reason if it is damaged or of a newer version.
  static Result<std::shared_ptr<const Segment>> open(std::shared_ptr<const Blob> blob);

  std::size_t series_count() const { return series_count_; }
  std::size_t chunk_count() const { return chunk_count_; }
  SeriesEntry series(std::size_t index) const;
  SeriesKey key_of(const SeriesEntry& entry) const;
  const std::vector<std::string_view>& metrics() const { return metrics_; }
  // The entries of a series, one for each attempt: begin and end.
  std::pair<std::size_t, std::size_t> find(const SeriesKey& key) const;
  // The ranks with points of a metric, which is an index in the names.
  MetricRanks ranks_of(std::size_t metric) const;
  std::optional<MetricRanks> ranks_of(std::string_view metric) const;
  // The first entry after the series.
  std::size_t after(const SeriesKey& key) const;
  ChunkEntry chunk(std::uint64_t index) const;
  const Marks& marks() const { return marks_; }

  // Code::corrupt if the bytes are not those that were written.
  Result<std::vector<SeriesPoint>> points(const ChunkEntry& entry) const;
  // The last value of the chunk at each of these steps, which ascend; `found` is left as it is for
  // a step that the chunk does not have. Faster than all points.
  Result<void> values_at(const ChunkEntry& entry, std::span<const std::int64_t> steps,
                         std::span<double> found) const;
  struct Axes {
    IntegerColumn steps, times;
  };
  Result<Axes> axes(const ChunkEntry& entry) const;
  Result<Rollups> rollups(const ChunkEntry& entry) const;
  // Part of the object; empty beyond its end.
  ByteSpan slice(std::uint64_t at, std::uint64_t size) const;

 private:
  explicit Segment(std::shared_ptr<const Blob> blob) : blob_(std::move(blob)) {}
  Result<void> read_index();
  Result<std::vector<double>> values(const ChunkEntry& entry) const;

  std::shared_ptr<const Blob> blob_;  // shared with the cache of open objects
  ByteSpan bytes_;
  std::vector<std::string_view> metrics_;
  Marks marks_;
  std::size_t series_count_ = 0, chunk_count_ = 0;
  ByteSpan series_, chunks_;
};

class SegmentWriter {
 public:
  explicit SegmentWriter(std::unique_ptr<BlobWriter> blob);

  // In the order of the index. The chunks that follow are of this series and attempt.
  void begin_series(const SeriesKey& key, std::int64_t epoch);
  Result<void> add(std::span<const SeriesPoint> points);      // a chunk, by step
  Result<void> add_all(std::span<const SeriesPoint> points);  // as many chunks as it takes
  Result<void> copy(const Segment& from, const ChunkEntry& entry);
  // Durable when this returns. The last call.
  Result<void> commit(const Marks& marks);
  // So far; after commit(), that of the object.
  Bytes size() const { return Bytes(static_cast<std::int64_t>(written_ + buffer_.size())); }

 private:
  Result<void> put(ChunkEntry entry, ByteSpan steps, ByteSpan times, ByteSpan values,
                   ByteSpan rollups);
  Result<std::uint64_t> put_axis(ByteSpan column);
  Result<std::uint64_t> write(ByteSpan bytes);
  Result<void> flush();
  std::string index(const Marks& marks) const;

  std::unique_ptr<BlobWriter> blob_;
  std::string buffer_;
  std::uint64_t written_ = 0;
  std::map<std::pair<std::uint64_t, std::uint64_t>, std::uint64_t> axes_;  // position by hash
  std::vector<std::string> metrics_;
  std::vector<SeriesEntry> series_;
  std::vector<ChunkEntry> chunks_;
  std::string rollups_;
};

}  // namespace lockstep::insight::series
