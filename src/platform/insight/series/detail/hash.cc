#include "platform/insight/series/detail/hash.h"

#include <xxhash.h>

namespace lockstep::insight::series {

std::uint64_t hash_of(ByteSpan bytes, std::uint64_t seed) {
  return XXH3_64bits_withSeed(bytes.data(), bytes.size(), seed);
}

std::pair<std::uint64_t, std::uint64_t> wide_hash_of(ByteSpan bytes) {
  const XXH128_hash_t hash = XXH3_128bits(bytes.data(), bytes.size());
  return {hash.high64, hash.low64};
}

}  // namespace lockstep::insight::series
