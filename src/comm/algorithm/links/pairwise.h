// Gather, scatter and all-to-all over links: each pair of ranks exchanges its data directly. n
// ranks, blocks of B bytes.
//   gather, scatter  the root moves (n - 1) * B bytes, every other rank B.
//   all-to-all       n - 1 steps; in step i each rank sends to rank + i and receives from rank - i,
//                    piece by piece in turn. Bytes sent by each rank: (n - 1) * B.
#pragma once

#include <cstddef>
#include <span>

#include "base/result.h"
#include "comm/algorithm/exchange/message_exchange.h"

namespace lockstep::comm {

// output: at the root only, n blocks.
Result<void> pairwise_gather(MessageExchange& exchange, std::span<const std::byte> input,
                             std::span<std::byte> output, int root);
// input: at the root only, n blocks.
Result<void> pairwise_scatter(MessageExchange& exchange, std::span<const std::byte> input,
                              std::span<std::byte> output, int root);
// n blocks each.
Result<void> pairwise_all_to_all(MessageExchange& exchange, std::span<const std::byte> input,
                                 std::span<std::byte> output);

}  // namespace lockstep::comm
