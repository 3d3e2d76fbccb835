// The collectives that have several algorithms. The given algorithm must support the operation.
#pragma once

#include "base/result.h"
#include "comm/algorithm/algorithm.h"
#include "comm/algorithm/exchange/buffer_parts.h"
#include "comm/algorithm/exchange/message_exchange.h"
#include "comm/reduction/types.h"

namespace lockstep::comm {

Result<void> all_reduce_over_links(Algorithm algorithm, MessageExchange& exchange,
                                   BufferParts& parts, DataType type, ReduceOp op);
Result<void> broadcast_over_links(Algorithm algorithm, MessageExchange& exchange,
                                  BufferParts& parts, int root);

}  // namespace lockstep::comm
