// Byte planes: the n-th byte of each number together, each plane compressed alone, or stored if
// that is no larger. Bytes of sign and exponent compress well; those of noise do not, and cost
// nothing more.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "base/result.h"
#include "platform/insight/series/codec/bytes.h"

namespace lockstep::insight::series {

// The low `planes` bytes (1 to 8) of each number, 1 to 4,096 of them, appended to `out`.
void encode_planes(std::span<const std::uint64_t> numbers, std::size_t planes, std::string& out);

// Bytes that are not stored are 0. Code::corrupt if `reader` has no such planes.
Result<void> decode_planes(ByteReader& reader, std::size_t planes, std::span<std::uint64_t> out);

}  // namespace lockstep::insight::series
