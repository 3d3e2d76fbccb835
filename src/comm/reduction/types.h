// The element types and reductions of collectives.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "base/data_type.h"

namespace lockstep::comm {

enum class ReduceOp : std::uint8_t {
  sum,
  min,
  max,
  product,
  average,  // of floats only
  bit_and,  // these of integers only
  bit_or,
  bit_xor,
};

// The types that can be reduced. Other collectives take all types.
inline constexpr DataType kReducedTypes[] = {
    DataType::uint8,    DataType::int32,   DataType::int64,  DataType::float16,
    DataType::bfloat16, DataType::float32, DataType::float64};
inline constexpr ReduceOp kReduceOps[] = {ReduceOp::sum,     ReduceOp::min,     ReduceOp::max,
                                          ReduceOp::product, ReduceOp::average, ReduceOp::bit_and,
                                          ReduceOp::bit_or,  ReduceOp::bit_xor};

bool is_defined(ReduceOp op, DataType type);
std::string_view text(ReduceOp op);

}  // namespace lockstep::comm
