#include "comm/reduction/types.h"

namespace lockstep::comm {

std::size_t size_of(DataType type) {
  switch (type) {
    case DataType::uint8:
      return 1;
    case DataType::float16:
    case DataType::bfloat16:
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
  return type != DataType::uint8 && type != DataType::int32 && type != DataType::int64;
}

bool is_defined(ReduceOp op, DataType type) {
  switch (op) {
    case ReduceOp::average:
      return is_float(type);
    case ReduceOp::bit_and:
    case ReduceOp::bit_or:
    case ReduceOp::bit_xor:
      return !is_float(type);
    default:
      return true;
  }
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

}  // namespace lockstep::comm
