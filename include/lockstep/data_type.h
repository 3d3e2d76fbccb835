// The element types of tensors and the reductions over them.
#pragma once

#include <cstdint>

namespace lockstep {

// By their names in torch.
enum class DataType : std::uint8_t {
  uint8,
  int32,
  int64,
  float16,
  bfloat16,
  float32,
  float64,
  int8,  // these three are moved and stored, but not reduced
  int16,
  boolean,  // one byte each, as bool
};

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

// The DataType of a C++ type. 16-bit floats have no C++ type.
template <class T>
struct DataTypeOf;
template <DataType kType>
struct DataTypeIs {
  static constexpr DataType value = kType;
};
template <>
struct DataTypeOf<std::uint8_t> : DataTypeIs<DataType::uint8> {};
template <>
struct DataTypeOf<std::int8_t> : DataTypeIs<DataType::int8> {};
template <>
struct DataTypeOf<std::int16_t> : DataTypeIs<DataType::int16> {};
template <>
struct DataTypeOf<std::int32_t> : DataTypeIs<DataType::int32> {};
template <>
struct DataTypeOf<std::int64_t> : DataTypeIs<DataType::int64> {};
template <>
struct DataTypeOf<float> : DataTypeIs<DataType::float32> {};
template <>
struct DataTypeOf<double> : DataTypeIs<DataType::float64> {};
template <>
struct DataTypeOf<bool> : DataTypeIs<DataType::boolean> {};

template <class T>
concept Element = requires { DataTypeOf<T>::value; };

}  // namespace lockstep
