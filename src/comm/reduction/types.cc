#include "comm/reduction/types.h"

#include <algorithm>
#include <iterator>

namespace lockstep::comm {

bool is_defined(ReduceOp op, DataType type) {
  if (std::ranges::find(kReducedTypes, type) == std::end(kReducedTypes)) return false;
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
