// Flat all-reduce, for what fits into one message: everybody sends its share to everybody and adds
// all shares in the order of the ring, so that all have the same bits. 16-bit floats are rounded
// after each addition.
//   Steps: 1. Bytes sent by each rank: (n - 1) * S. Latency instead of bandwidth.
#pragma once

#include <cstddef>

#include "base/result.h"
#include "comm/algorithm/exchange.h"
#include "comm/algorithm/parts.h"
#include "comm/reduction/types.h"

namespace lockstep {

inline constexpr std::size_t kFlatBytes = 4096;  // at most

// Parts: one, of at most kFlatBytes.
Result<void> flat_all_reduce(Exchange& exchange, Parts& parts, DataType type, ReduceOp op);

}  // namespace lockstep
