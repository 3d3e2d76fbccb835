// The types of elements of tensors, by their names in torch.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace lockstep {

enum class DataType : std::uint8_t {
  uint8,
  int32,
  int64,
  float16,
  bfloat16,
  float32,
  float64,
  int8,
  int16,
  boolean,
};

inline constexpr DataType kDataTypes[] = {
    DataType::uint8,   DataType::int32,   DataType::int64, DataType::float16, DataType::bfloat16,
    DataType::float32, DataType::float64, DataType::int8,  DataType::int16,   DataType::boolean};

std::size_t size_of(DataType type);  // bytes of one element
bool is_float(DataType type);
std::string_view text(DataType type);  // "float32", "bool"

}  // namespace lockstep
