// The element types and reductions of collectives.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace lockstep::comm {

enum class DataType : std::uint8_t { uint8, int32, int64, float16, bfloat16, float32, float64 };
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

inline constexpr DataType kDataTypes[] = {DataType::uint8,   DataType::int32,    DataType::int64,
                                          DataType::float16, DataType::bfloat16, DataType::float32,
                                          DataType::float64};
inline constexpr ReduceOp kReduceOps[] = {ReduceOp::sum,     ReduceOp::min,     ReduceOp::max,
                                          ReduceOp::product, ReduceOp::average, ReduceOp::bit_and,
                                          ReduceOp::bit_or,  ReduceOp::bit_xor};

std::size_t size_of(DataType type);  // bytes of one element
bool is_float(DataType type);
bool is_defined(ReduceOp op, DataType type);
std::string_view text(DataType type);
std::string_view text(ReduceOp op);

}  // namespace lockstep::comm
