// Reductions one element after the other, in the simplest form: the reference for the kernels.
#pragma once

#include <bit>
#include <cstdint>
#include <cstring>
#include <limits>
#include <type_traits>
#include <vector>

#include "comm/reduction/reduction.h"

namespace lockstep::comm {

using Memory = std::vector<std::byte>;

inline float float_of_brain(std::uint16_t stored) {
  return std::bit_cast<float>(static_cast<std::uint32_t>(stored) << 16);
}
inline std::uint16_t brain_of_float(float value) {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  const auto kept = bits >> 16, dropped = bits & 0xffffu;
  const bool up = dropped > 0x8000u || (dropped == 0x8000u && kept % 2 == 1);
  return static_cast<std::uint16_t>(kept + (up ? 1 : 0));
}
inline float float_of_half(std::uint16_t stored) {
  return static_cast<float>(std::bit_cast<_Float16>(stored));
}
inline std::uint16_t half_of_float(float value) {
  return std::bit_cast<std::uint16_t>(static_cast<_Float16>(value));
}
template <class T>
T itself(T value) {
  return value;
}

template <class C>
C apply(ReduceOp op, C x, C y) {
  if (op == ReduceOp::min) return y < x ? y : x;
  if (op == ReduceOp::max) return x < y ? y : x;
  if constexpr (std::is_integral_v<C>) {
    if (op == ReduceOp::bit_and) return static_cast<C>(x & y);
    if (op == ReduceOp::bit_or) return static_cast<C>(x | y);
    if (op == ReduceOp::bit_xor) return static_cast<C>(x ^ y);
    C wrapped;
    if (op == ReduceOp::product)
      (void)__builtin_mul_overflow(x, y, &wrapped);
    else
      (void)__builtin_add_overflow(x, y, &wrapped);
    return wrapped;
  } else {
    return op == ReduceOp::product ? x * y : x + y;
  }
}

template <class Stored, class C>
Memory serial_as(const std::vector<Memory>& sources, const ReductionSpec& reduction,
                 C (*load)(Stored), Stored (*store)(C)) {
  Memory results(sources[0].size());
  for (std::size_t at = 0; at < results.size(); at += sizeof(Stored)) {
    const auto element = [&](const Memory& source) {
      Stored stored;
      std::memcpy(&stored, source.data() + at, sizeof stored);
      return load(stored);
    };
    C result = element(sources[0]);
    for (std::size_t k = 1; k < sources.size(); ++k)
      result = apply(reduction.op, result, element(sources[k]));
    if (reduction.op == ReduceOp::average)
      result = static_cast<C>(result / static_cast<C>(reduction.divisor));
    if (result != result) result = std::numeric_limits<C>::quiet_NaN();
    const Stored stored = store(result);
    std::memcpy(results.data() + at, &stored, sizeof stored);
  }
  return results;
}

// All sources have the same length.
inline Memory serial(const std::vector<Memory>& sources, const ReductionSpec& reduction) {
  switch (reduction.type) {
    case DataType::uint8:
      return serial_as(sources, reduction, itself<std::uint8_t>, itself<std::uint8_t>);
    case DataType::int32:
      return serial_as(sources, reduction, itself<std::int32_t>, itself<std::int32_t>);
    case DataType::int64:
      return serial_as(sources, reduction, itself<std::int64_t>, itself<std::int64_t>);
    case DataType::float16:
      return serial_as(sources, reduction, float_of_half, half_of_float);
    case DataType::bfloat16:
      return serial_as(sources, reduction, float_of_brain, brain_of_float);
    case DataType::float32:
      return serial_as(sources, reduction, itself<float>, itself<float>);
    case DataType::float64:
      return serial_as(sources, reduction, itself<double>, itself<double>);
    default:
      break;
  }
  return {};
}

}  // namespace lockstep::comm
