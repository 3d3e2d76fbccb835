// Broadcast along the ring, as a pipelined chain from the root to its left neighbour.
//   Steps: n - 2 + number of pieces. Bytes sent by each rank but the last: S.
#pragma once

#include "base/result.h"
#include "comm/algorithm/exchange.h"
#include "comm/algorithm/parts.h"

namespace lockstep {

// Parts are filled at the root only.
Result<void> ring_broadcast(Exchange& exchange, Parts& parts, int root);

}  // namespace lockstep
