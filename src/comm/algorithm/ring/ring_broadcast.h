// Broadcast along the ring, as a pipelined chain from the root to its left neighbour.
//   Steps: n - 2 + number of pieces. Bytes sent by each rank but the last: S.
#pragma once

#include "base/result.h"
#include "comm/algorithm/exchange/buffer_parts.h"
#include "comm/algorithm/exchange/message_exchange.h"

namespace lockstep::comm {

// Only the root calls before_exchange().
Result<void> ring_broadcast(MessageExchange& exchange, BufferParts& parts, int root);

}  // namespace lockstep::comm
