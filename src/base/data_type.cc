#include "base/data_type.h"

namespace lockstep {

std::size_t size_of(DataType type) {
  switch (type) {
    case DataType::uint8:
    case DataType::int8:
    case DataType::boolean:
      return 1;
    case DataType::float16:
    case DataType::bfloat16:
    case DataType::int16:
      return 2;
    case DataType::int32:
    case DataType::float32:
      return 4;
    case DataType::int64:
    case DataType::float64:
      return 8;
  }
  return 1;
}

bool is_float(DataType type) {
  return type == DataType::float16 || type == DataType::bfloat16 || type == DataType::float32 ||
         type == DataType::float64;
}

std::string_view text(DataType type) {
  switch (type) {
    case DataType::uint8:
      return "uint8";
    case DataType::int32:
      return "int32";
    case DataType::int64:
      return "int64";
    case DataType::float16:
      return "float16";
    case DataType::bfloat16:
      return "bfloat16";
    case DataType::float32:
      return "float32";
    case DataType::float64:
      return "float64";
    case DataType::int8:
      return "int8";
    case DataType::int16:
      return "int16";
    case DataType::boolean:
      return "bool";
  }
  return "unknown type";
}

std::string_view text(ReduceOp op) {
  switch (op) {
    case ReduceOp::sum:
      return "sum";
    case ReduceOp::min:
      return "min";
    case ReduceOp::max:
      return "max";
    case ReduceOp::product:
      return "product";
    case ReduceOp::average:
      return "average";
    case ReduceOp::bit_and:
      return "bit_and";
    case ReduceOp::bit_or:
      return "bit_or";
    case ReduceOp::bit_xor:
      return "bit_xor";
  }
  return "unknown reduction";
}

}  // namespace lockstep
