// Ring reduce-scatter. n ranks, each with n blocks of B bytes; rank r gets the reduction of all
// blocks r.
//   Steps: n - 1. Bytes sent by each rank: (n - 1) * B. No memory but the slots: partial sums live
//   only on their way, in the order of the ring. 16-bit floats are rounded after each addition.
#pragma once

#include <cstddef>
#include <functional>
#include <span>

#include "base/result.h"
#include "comm/algorithm/exchange.h"
#include "comm/algorithm/slice.h"
#include "comm/reduction/types.h"

namespace lockstep {

// What goes into the sum for `rank` from here: elements of its block, valid until asked again.
// Asked for once for each range, in an order that is the same on all ranks with this place in the
// ring.
using ShareOf = std::function<Result<const std::byte*>(int rank, ElementRange range)>;

// Ranks have the numbers of the whole group, also where the exchange is among some of its ranks.
Result<void> ring_reduce_scatter(Exchange& exchange, const ShareOf& share,
                                 std::span<std::byte> output, DataType type, ReduceOp op);
// input: a block for each rank of the group.
Result<void> ring_reduce_scatter(Exchange& exchange, std::span<const std::byte> input,
                                 std::span<std::byte> output, DataType type, ReduceOp op);

}  // namespace lockstep
