#include "train/checkpoint/format/tensor_file/element_type.h"

#include <array>

#include "base/check.h"

namespace lockstep::train {
namespace {

struct ElementTypeInfo {
  ElementType type;
  std::int64_t bytes;
  std::string_view safetensors;
};

constexpr std::array<ElementTypeInfo, 10> kElementTypes{{{ElementType::float32, 4, "F32"},
                                                         {ElementType::float64, 8, "F64"},
                                                         {ElementType::float16, 2, "F16"},
                                                         {ElementType::bfloat16, 2, "BF16"},
                                                         {ElementType::int64, 8, "I64"},
                                                         {ElementType::int32, 4, "I32"},
                                                         {ElementType::int16, 2, "I16"},
                                                         {ElementType::int8, 1, "I8"},
                                                         {ElementType::uint8, 1, "U8"},
                                                         {ElementType::boolean, 1, "BOOL"}}};

const ElementTypeInfo& element_type_info(ElementType type) {
  for (const auto& one : kElementTypes)
    if (one.type == type) return one;
  check_failed("the type is known", "");
}

}  // namespace

std::int64_t bytes_of(ElementType type) { return element_type_info(type).bytes; }

std::string_view safetensors_name(ElementType type) { return element_type_info(type).safetensors; }

std::optional<ElementType> from_safetensors_name(std::string_view name) {
  for (const auto& one : kElementTypes)
    if (one.safetensors == name) return one.type;
  return std::nullopt;
}

}  // namespace lockstep::train
