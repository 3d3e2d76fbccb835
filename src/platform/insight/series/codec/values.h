// Columns of values: doubles, with their bits, in the smallest of four forms.
//
//   constant   one value
//   decimal    whole numbers of 10^-scale, as offsets from the least or as differences, in byte
//   planes XOR        Gorilla's planes     byte planes of floats, if each value is one, or of
//   doubles
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>

#include "base/result.h"
#include "platform/insight/series/codec/bytes.h"

namespace lockstep::insight::series {

// The least scale, 0 to 9, for which each value is exactly the double nearest to a whole number of
// 10^-scale, below 2^53. None for NaN, infinities and -0.
std::optional<int> decimal_scale(std::span<const double> values);
// The whole number of such a value, and back.
std::int64_t decimal_of(double value, int scale);
double value_of_decimal(std::int64_t number, int scale);

// Each is a float: converted to one and back, it has the same bits.
bool are_floats(std::span<const double> values);

// 1 to 4,096 values, appended to `out`.
void encode_values(std::span<const double> values, std::string& out);
// Code::corrupt if `bytes` are no column of as many values as `out` has.
Result<void> decode_values(ByteSpan bytes, std::span<double> out);

}  // namespace lockstep::insight::series
