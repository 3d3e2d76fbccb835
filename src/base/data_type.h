// The element types and reductions of lockstep/data_type.h: lists, sizes and names.
#pragma once

#include <cstddef>
#include <string_view>

#include "lockstep/data_type.h"

namespace lockstep {

inline constexpr DataType kDataTypes[] = {
    DataType::uint8,   DataType::int32,   DataType::int64, DataType::float16, DataType::bfloat16,
    DataType::float32, DataType::float64, DataType::int8,  DataType::int16,   DataType::boolean};
inline constexpr ReduceOp kReduceOps[] = {ReduceOp::sum,     ReduceOp::min,     ReduceOp::max,
                                          ReduceOp::product, ReduceOp::average, ReduceOp::bit_and,
                                          ReduceOp::bit_or,  ReduceOp::bit_xor};

std::size_t size_of(DataType type);  // bytes of one element
bool is_float(DataType type);
std::string_view text(DataType type);  // "float32", "bool"
std::string_view text(ReduceOp op);    // "sum"

}  // namespace lockstep
