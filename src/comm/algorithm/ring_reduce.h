// Ring reduce: a chain along the ring that ends at the root, in pieces. n ranks, S bytes.
//   Steps: n - 1 + pieces. Bytes sent by each rank but the root: S. Partial sums live only on their
//   way; the buffers of other ranks stay as they are.
#pragma once

#include <cstddef>
#include <span>

#include "base/result.h"
#include "comm/algorithm/exchange.h"
#include "comm/reduction/types.h"

namespace lockstep {

Result<void> ring_reduce(Exchange& exchange, std::span<std::byte> buffer, DataType type,
                         ReduceOp op, int root);

}  // namespace lockstep
