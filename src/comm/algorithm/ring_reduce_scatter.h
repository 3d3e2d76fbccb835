// Ring reduce-scatter. n ranks, each with n blocks of B bytes; rank r gets the reduction of all
// blocks r.
//   Steps: n - 1. Bytes sent by each rank: (n - 1) * B. No memory but the slots: partial sums live
//   only on their way, in the order of the ring. 16-bit floats are rounded after each addition.
#pragma once

#include <cstddef>
#include <functional>
#include <span>
#include <vector>

#include "base/result.h"
#include "comm/algorithm/exchange.h"
#include "comm/algorithm/slice.h"
#include "comm/reduction/types.h"

namespace lockstep {

// What goes from here into the sum for a place in the ring: elements of that one's block, valid
// until asked again. Asked for once for each range, in an order that is the same on all ranks with
// this place in their rings.
using ShareOf = std::function<Result<const std::byte*>(std::size_t place, ElementRange range)>;

// Of blocks of so many bytes. has_block: for each place in the ring whether it has one; of one that
// has none the shares are asked for, too, and are not sent. output: this rank's block, if it has
// one.
Result<void> ring_reduce_scatter(Exchange& exchange, const std::vector<bool>& has_block,
                                 std::size_t block, const ShareOf& share, std::byte* output,
                                 DataType type, ReduceOp op);
// Asks for all shares in the same order and exchanges nothing: for a rank that only takes part in
// making those of others, whose rings are as long and in which they have this one's place.
Result<void> make_shares(Exchange& exchange, std::size_t block, const ShareOf& share,
                         DataType type);
// input: a block for each rank of the group.
Result<void> ring_reduce_scatter(Exchange& exchange, std::span<const std::byte> input,
                                 std::span<std::byte> output, DataType type, ReduceOp op);

}  // namespace lockstep
