// Ring all-reduce (Patarasuk and Yuan 2009). n ranks, S bytes, in place.
//   Steps: n - 1 that reduce (a chunk collects one more rank's share at each), then n - 1 that
//   carry the finished chunks around. Bytes sent by each rank: 2 (n - 1) / n * S, the least
//   possible (S divisible by all that it is cut into). A chunk's shares are added in the order of
//   the ring and its result is computed once, so all ranks have the same bits. 16-bit floats are
//   rounded after each addition.
#pragma once

#include "base/result.h"
#include "comm/algorithm/exchange.h"
#include "comm/algorithm/parts.h"
#include "comm/reduction/types.h"

namespace lockstep {

Result<void> ring_all_reduce(Exchange& exchange, Parts& parts, DataType type, ReduceOp op);

}  // namespace lockstep
