// XXH3 (xxHash 0.8) of stored bytes: finds torn and damaged ones, not forged ones.
#pragma once

#include <cstdint>
#include <utility>

#include "platform/insight/series/codec/bytes.h"

namespace lockstep::insight::series {

std::uint64_t hash_of(ByteSpan bytes, std::uint64_t seed = 0);
// 128 bits: equal hashes are taken for equal bytes.
std::pair<std::uint64_t, std::uint64_t> wide_hash_of(ByteSpan bytes);

}  // namespace lockstep::insight::series
