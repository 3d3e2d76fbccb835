// Broadcast along the ring, as a pipelined chain from the root to its left neighbour.
//   Steps: n - 2 + number of pieces. Bytes sent by each rank but the last: S.
#pragma once

#include <cstddef>
#include <span>

#include "base/result.h"
#include "comm/algorithm/exchange.h"

namespace lockstep {

Result<void> ring_broadcast(Exchange& exchange, std::span<std::byte> buffer, int root);

}  // namespace lockstep
