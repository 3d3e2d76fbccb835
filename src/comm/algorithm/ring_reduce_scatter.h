// Ring reduce-scatter. n ranks, each with n blocks of B bytes; rank r gets the reduction of all
// blocks r.
//   Steps: n - 1. Bytes sent by each rank: (n - 1) * B. No memory but the slots: partial sums live
//   only on their way.
#pragma once

#include <cstddef>
#include <span>

#include "base/result.h"
#include "comm/algorithm/exchange.h"
#include "comm/reduction/types.h"

namespace lockstep {

Result<void> ring_reduce_scatter(Exchange& exchange, std::span<const std::byte> input,
                                 std::span<std::byte> output, DataType type, ReduceOp op);

}  // namespace lockstep
