// The types of elements that checkpoints hold, under the names of torch and of safetensors.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "text/record.h"

namespace lockstep::train {

enum class ElementType {
  float32,
  float64,
  float16,
  bfloat16,
  int64,
  int32,
  int16,
  int8,
  uint8,
  boolean
};

constexpr auto enum_names(ElementType) {
  return names<ElementType>({{ElementType::float32, "float32"},
                             {ElementType::float64, "float64"},
                             {ElementType::float16, "float16"},
                             {ElementType::bfloat16, "bfloat16"},
                             {ElementType::int64, "int64"},
                             {ElementType::int32, "int32"},
                             {ElementType::int16, "int16"},
                             {ElementType::int8, "int8"},
                             {ElementType::uint8, "uint8"},
                             {ElementType::boolean, "bool"}});
}

// The size of one element.
std::int64_t bytes_of(ElementType type);

// "F32" for float32.
std::string_view safetensors_name(ElementType type);
std::optional<ElementType> from_safetensors_name(std::string_view name);

}  // namespace lockstep::train
