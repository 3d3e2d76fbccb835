#include "platform/insight/detail/packed_text.h"

#include <zstd.h>

namespace lockstep::insight {
namespace {

// The fastest level: the daemon's one thread compresses all lines.
constexpr int kTextLevel = 1;
// A frame has about ten bytes besides its content, and short texts repeat little.
constexpr std::size_t kPackMin = 256;
// A chunk has 64 KiB, or one line of at most a megabyte.
constexpr std::size_t kUnpackMax = 4 << 20;

Error damaged_lines() { return {Code::corrupt, "a chunk of log lines in the store is damaged"}; }

}  // namespace

std::optional<std::string> pack(std::string_view text) {
  if (text.size() < kPackMin) return std::nullopt;
  std::string packed(ZSTD_compressBound(text.size()), '\0');
  const std::size_t size =
      ZSTD_compress(packed.data(), packed.size(), text.data(), text.size(), kTextLevel);
  if (ZSTD_isError(size) != 0 || size >= text.size()) return std::nullopt;
  packed.resize(size);
  packed.shrink_to_fit();
  return packed;
}

Result<std::string> unpack(std::string_view packed) {
  const unsigned long long size = ZSTD_getFrameContentSize(packed.data(), packed.size());
  if (size == ZSTD_CONTENTSIZE_UNKNOWN || size == ZSTD_CONTENTSIZE_ERROR || size > kUnpackMax)
    return damaged_lines();
  std::string text(size, '\0');
  if (ZSTD_decompress(text.data(), text.size(), packed.data(), packed.size()) != size)
    return damaged_lines();
  return text;
}

}  // namespace lockstep::insight
