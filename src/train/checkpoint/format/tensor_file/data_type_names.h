// The types of elements in a checkpoint: their names in its manifest and in safetensors.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "base/data_type.h"
#include "text/record.h"

namespace lockstep {

constexpr auto enum_names(DataType) {
  return names<DataType>({{DataType::float32, "float32"},
                          {DataType::float64, "float64"},
                          {DataType::float16, "float16"},
                          {DataType::bfloat16, "bfloat16"},
                          {DataType::int64, "int64"},
                          {DataType::int32, "int32"},
                          {DataType::int16, "int16"},
                          {DataType::int8, "int8"},
                          {DataType::uint8, "uint8"},
                          {DataType::boolean, "bool"}});
}

}  // namespace lockstep

namespace lockstep::train {

// The size of one element.
inline std::int64_t bytes_of(DataType type) { return static_cast<std::int64_t>(size_of(type)); }

// "F32" for float32.
std::string_view safetensors_name(DataType type);
std::optional<DataType> from_safetensors_name(std::string_view name);

}  // namespace lockstep::train
