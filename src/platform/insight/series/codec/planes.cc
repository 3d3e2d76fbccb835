#include "platform/insight/series/codec/planes.h"

#include <algorithm>
#include <array>
#include <memory>

#include <zstd.h>

#include "base/check.h"
#include "platform/insight/series/codec/integers.h"

namespace lockstep::insight::series {
namespace {

// Higher levels take several times as long and gain under 1 % here.
constexpr int kLevel = 1;
// Fewer bytes are stored: a frame alone has about ten.
constexpr std::size_t kCompressMin = 64;

struct FreeContext {
  void operator()(ZSTD_CCtx* context) const { ZSTD_freeCCtx(context); }
  void operator()(ZSTD_DCtx* context) const { ZSTD_freeDCtx(context); }
};

// One for each thread: making one takes longer than compressing a plane.
ZSTD_CCtx* compressor() {
  thread_local const std::unique_ptr<ZSTD_CCtx, FreeContext> context(ZSTD_createCCtx());
  LS_CHECK(context != nullptr, "no memory for zstd");
  return context.get();
}
ZSTD_DCtx* decompressor() {
  thread_local const std::unique_ptr<ZSTD_DCtx, FreeContext> context(ZSTD_createDCtx());
  LS_CHECK(context != nullptr, "no memory for zstd");
  return context.get();
}

using Plane = std::array<unsigned char, kChunkPoints>;

// Size and form in one number, then the bytes.
void put_plane(std::span<const unsigned char> plane, std::string& out) {
  std::array<char, 2 * kChunkPoints> compressed;
  std::size_t size = plane.size();
  if (plane.size() >= kCompressMin)
    size = ZSTD_compressCCtx(compressor(), compressed.data(), compressed.size(), plane.data(),
                             plane.size(), kLevel);
  if (ZSTD_isError(size) == 0 && size < plane.size()) {
    put_varint(out, 2 * size + 1);
    out.append(compressed.data(), size);
  } else {
    put_varint(out, 2 * plane.size());
    out.append(reinterpret_cast<const char*>(plane.data()), plane.size());
  }
}

Error damaged_plane() { return {Code::corrupt, "a column of values is damaged"}; }

Result<void> take_plane(ByteReader& reader, std::span<unsigned char> plane) {
  const std::uint64_t size_and_form = reader.varint();
  const ByteSpan stored = reader.take(size_and_form / 2);
  if (!reader.ok()) return damaged_plane();
  if (size_and_form % 2 == 0) {
    if (stored.size() != plane.size()) return damaged_plane();
    std::memcpy(plane.data(), stored.data(), plane.size());
    return {};
  }
  const std::size_t size =
      ZSTD_decompressDCtx(decompressor(), plane.data(), plane.size(), stored.data(), stored.size());
  if (ZSTD_isError(size) != 0 || size != plane.size()) return damaged_plane();
  return {};
}

}  // namespace

void encode_planes(std::span<const std::uint64_t> numbers, std::size_t planes, std::string& out) {
  LS_CHECK(!numbers.empty() && numbers.size() <= kChunkPoints && planes >= 1 && planes <= 8);
  Plane plane;
  for (std::size_t n = 0; n < planes; ++n) {
    for (std::size_t i = 0; i < numbers.size(); ++i)
      plane[i] = static_cast<unsigned char>(numbers[i] >> (8 * n));
    put_plane(std::span(plane).first(numbers.size()), out);
  }
}

Result<void> decode_planes(ByteReader& reader, std::size_t planes, std::span<std::uint64_t> out) {
  LS_CHECK(!out.empty() && out.size() <= kChunkPoints && planes >= 1 && planes <= 8);
  Plane plane;
  std::ranges::fill(out, 0);
  for (std::size_t n = 0; n < planes; ++n) {
    TRY(take_plane(reader, std::span(plane).first(out.size())));
    for (std::size_t i = 0; i < out.size(); ++i) out[i] |= std::uint64_t{plane[i]} << (8 * n);
  }
  return {};
}

}  // namespace lockstep::insight::series
