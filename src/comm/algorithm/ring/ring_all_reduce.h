// Ring all-reduce (Patarasuk and Yuan 2009). n ranks, S bytes, in place.
//   Steps: n - 1 that reduce (each adds one more rank's share to a chunk), then n - 1 that pass the
//         finished chunks around.
//   Bytes sent by each rank: 2 (n - 1) / n * S, the least possible (S divisible by the number of
//         pieces).
// A chunk's shares are added in the order of the ring and its result is computed once, so all ranks
// have the same bits. 16-bit floats are rounded after each addition.
#pragma once

#include "base/result.h"
#include "comm/algorithm/exchange/buffer_parts.h"
#include "comm/algorithm/exchange/message_exchange.h"
#include "comm/reduction/types.h"

namespace lockstep::comm {

Result<void> ring_all_reduce(MessageExchange& exchange, BufferParts& parts, DataType type,
                             ReduceOp op);

}  // namespace lockstep::comm
