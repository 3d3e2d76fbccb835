#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/check.h"
#include "base/fuzz_for_test.h"
#include "platform/insight/series/detail/batch_record.h"
#include "platform/insight/series/detail/hash.h"
#include "platform/insight/series/detail/segment.h"

using namespace lockstep;
using namespace lockstep::insight;
using namespace lockstep::insight::series;

namespace {

class TextBlob : public Blob {
 public:
  explicit TextBlob(std::string text) : text_(std::move(text)) {}
  ByteSpan bytes() const override { return bytes_of(text_); }

 private:
  std::string text_;
};

class TextWriter : public BlobWriter {
 public:
  explicit TextWriter(std::string& text) : text_(text) {}
  Result<void> write(ByteSpan bytes) override {
    text_.append(reinterpret_cast<const char*>(bytes.data()), bytes.size());
    return {};
  }
  Result<void> commit() override { return {}; }

 private:
  std::string& text_;
};

std::string segment() {
  std::string text;
  SegmentWriter writer(std::make_unique<TextWriter>(text));
  for (int index = 0; index < 2; ++index) {
    writer.begin_series({"loss", RunPart::rank, index}, 1);
    std::vector<SeriesPoint> points;
    for (int i = 0; i < 200; ++i) points.push_back({i, Time(Duration(i * i)), i * 0.1});
    LS_CHECK(writer.add(points).has_value());
  }
  LS_CHECK(writer.commit({{"node-0", 7}}).has_value());
  return text;
}

std::string record() {
  PointBatch batch{
      .attempt = {{"demo", 1}, 1}, .source = "node-0", .sequence = 3, .series = {}, .points = {}};
  batch.series = {{"loss", RunPart::rank, 0}};
  batch.points = {{0, {1, Time(), 0.5}}, {0, {2, Time(), 0.25}}};
  std::string text;
  encode_batch(batch, {true}, text);
  return text;
}

// Otherwise the hash hides what follows it.
std::string with_valid_index(std::string text) {
  constexpr std::size_t kFooter = 40;
  if (text.size() < kFooter) return text;
  std::uint64_t position[2];
  std::memcpy(position, text.data() + text.size() - kFooter, sizeof position);
  if (position[0] > text.size() || position[1] > text.size() - position[0]) return text;
  const std::uint64_t hash = hash_of(bytes_of(text).subspan(position[0], position[1]));
  std::memcpy(text.data() + text.size() - kFooter + sizeof position, &hash, sizeof hash);
  return text;
}

}  // namespace

LS_FUZZ(series_segment, {segment(), record()}) {
  (void)decode_record(fuzzing::bytes_of(input));
  const auto opened =
      Segment::open(std::make_shared<TextBlob>(with_valid_index(std::string(input))));
  if (!opened) return;
  const Segment& segment = **opened;
  for (std::size_t i = 0; i < segment.series_count(); ++i) {
    const SeriesEntry series = segment.series(i);
    (void)segment.find(segment.key_of(series));
    for (std::uint32_t chunk = 0; chunk < std::min(series.chunks, 10u); ++chunk) {
      const ChunkEntry entry = segment.chunk(series.first_chunk + chunk);
      (void)segment.points(entry);
      if (entry.count <= kChunkPoints) (void)segment.rollups(entry);
    }
  }
}
