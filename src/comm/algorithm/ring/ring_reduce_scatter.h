// Ring reduce-scatter. n ranks, each with n blocks of B bytes; rank r gets the reduction of all
// blocks r. Steps: n - 1. Bytes sent by each rank: (n - 1) * B. It needs no memory but the slots:
// partial sums exist only in messages, in the order of the ring. 16-bit floats are rounded after
// each addition.
#pragma once

#include <cstddef>
#include <functional>
#include <span>
#include <vector>

#include "base/result.h"
#include "comm/algorithm/exchange/message_exchange.h"
#include "comm/algorithm/exchange/slice.h"
#include "comm/reduction/types.h"

namespace lockstep::comm {

// Returns this rank's operand for the block of a ring index; valid until the next call. Called once
// for each range, in an order that is the same on all ranks with this ring index.
using ShareFunction =
    std::function<Result<const std::byte*>(std::size_t ring_index, ElementRange range)>;

// Reduces blocks of `block` bytes. has_block: for each ring index whether it has a block. The
// shares of a missing block are still computed, but not sent. output: this rank's block, if it has
// one.
Result<void> ring_reduce_scatter(MessageExchange& exchange, const std::vector<bool>& has_block,
                                 std::size_t block, const ShareFunction& share, std::byte* output,
                                 DataType type, ReduceOp op);
// Computes all shares in the same order and exchanges nothing. It is for a rank that only helps to
// compute the shares of others, whose rings have the same length and in which they have this ring
// index.
Result<void> compute_shares(MessageExchange& exchange, std::size_t block,
                            const ShareFunction& share, DataType type);
// input: a block for each rank of the group.
Result<void> ring_reduce_scatter(MessageExchange& exchange, std::span<const std::byte> input,
                                 std::span<std::byte> output, DataType type, ReduceOp op);

}  // namespace lockstep::comm
