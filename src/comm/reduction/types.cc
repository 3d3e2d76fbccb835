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

}  // namespace lockstep::comm
