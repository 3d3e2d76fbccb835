// Flat all-reduce, for what fits into one message: everybody sends its share to everybody and adds
// all shares in the order of the ranks, so that all have the same bits.
//   Steps: 1. Bytes sent by each rank: (n - 1) * S. Latency instead of bandwidth.
#pragma once

#include <cstddef>
#include <span>

#include "base/result.h"
#include "comm/algorithm/exchange.h"
#include "comm/reduction/types.h"

namespace lockstep {

inline constexpr std::size_t kFlatBytes = 4096;  // at most

Result<void> flat_all_reduce(Exchange& exchange, std::span<std::byte> buffer, DataType type,
                             ReduceOp op);

}  // namespace lockstep
