// Flat all-reduce, for data that fits into one message. Each rank sends its share to all others and
// adds all shares in the order of the ring, so all ranks have the same bits. 16-bit floats are
// rounded after each addition. Steps: 1. Bytes sent by each rank: (n - 1) * S. It optimizes
// latency, not bandwidth.
#pragma once

#include <cstddef>

#include "base/result.h"
#include "comm/algorithm/exchange/buffer_parts.h"
#include "comm/algorithm/exchange/message_exchange.h"
#include "comm/reduction/types.h"

namespace lockstep::comm {

inline constexpr std::size_t kFlatBytes = 4096;  // at most

// parts: one, of at most kFlatBytes.
Result<void> flat_all_reduce(MessageExchange& exchange, BufferParts& parts, DataType type,
                             ReduceOp op);

}  // namespace lockstep::comm
