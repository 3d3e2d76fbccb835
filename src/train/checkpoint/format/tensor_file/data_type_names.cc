#include "train/checkpoint/format/tensor_file/data_type_names.h"

#include <array>

#include "base/check.h"

namespace lockstep::train {
namespace {

struct SafetensorsName {
  DataType type;
  std::string_view name;
};

constexpr std::array<SafetensorsName, 10> kNames{{{DataType::float32, "F32"},
                                                  {DataType::float64, "F64"},
                                                  {DataType::float16, "F16"},
                                                  {DataType::bfloat16, "BF16"},
                                                  {DataType::int64, "I64"},
                                                  {DataType::int32, "I32"},
                                                  {DataType::int16, "I16"},
                                                  {DataType::int8, "I8"},
                                                  {DataType::uint8, "U8"},
                                                  {DataType::boolean, "BOOL"}}};

}  // namespace

std::string_view safetensors_name(DataType type) {
  for (const auto& one : kNames)
    if (one.type == type) return one.name;
  check_failed("the type is known", "");
}

std::optional<DataType> from_safetensors_name(std::string_view name) {
  for (const auto& one : kNames)
    if (one.name == name) return one.type;
  return std::nullopt;
}

}  // namespace lockstep::train
