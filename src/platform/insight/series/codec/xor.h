// XOR of neighbouring values (Pelkonen et al., "Gorilla", VLDB 2015, section 4.1.2): for values
// that repeat or share their leading and trailing bits, such as learning rates.
//
// A bit 0: the same value. 1, 0: the bits that differ, at the place of the last ones. 1, 1: 6 bits
// with the number of leading zeros, 6 with the number of bits less one, then these bits.
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "base/result.h"
#include "platform/insight/series/codec/bytes.h"

namespace lockstep::insight::series {

// The bits of 1 to 4,096 values, appended to `out`. Stops early, with what it has, once that
// exceeds `most` bytes: another form is smaller then.
void encode_xor(std::span<const std::uint64_t> values, std::size_t most, std::string& out);
Result<void> decode_xor(ByteSpan bytes, std::span<std::uint64_t> out);

}  // namespace lockstep::insight::series
