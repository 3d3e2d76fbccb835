// Ring all-gather. n ranks with a block of B bytes each; all get all blocks.
//   Steps: n - 1. Bytes sent by each rank: (n - 1) * B. A block is copied once into the output and
//   once into the next link.
#pragma once

#include <cstddef>
#include <functional>
#include <span>

#include "base/result.h"
#include "comm/algorithm/exchange/message_exchange.h"
#include "comm/algorithm/exchange/slice.h"

namespace lockstep::comm {

// Called when a range of bytes of every block has been received: in ascending order, at the same
// steps on all ranks.
using RangeCallback = std::function<Result<void>(ByteRange)>;

// Gathers blocks of `block` bytes. Ranks that have a block have it in place in the output. owners:
// for each ring index the rank whose block it has; negative: none. The position of a block is its
// owner's rank in the whole group.
Result<void> ring_all_gather(MessageExchange& exchange, std::span<const int> owners,
                             std::size_t block, std::span<std::byte> output,
                             const RangeCallback& gathered);
// The number of calls of `gathered`.
std::size_t gathered_range_count(const MessageExchange& exchange, std::size_t block);

// input may be the rank's own block of output.
Result<void> ring_all_gather(MessageExchange& exchange, std::span<const std::byte> input,
                             std::span<std::byte> output);

}  // namespace lockstep::comm
