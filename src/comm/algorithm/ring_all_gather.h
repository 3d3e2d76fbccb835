// Ring all-gather. n ranks with a block of B bytes each; all get all blocks.
//   Steps: n - 1. Bytes sent by each rank: (n - 1) * B. A block is copied once into the output and
//   once into the next link.
#pragma once

#include <cstddef>
#include <functional>
#include <span>

#include "base/result.h"
#include "comm/algorithm/exchange.h"
#include "comm/algorithm/slice.h"

namespace lockstep {

// Told when a range of bytes of every block has come; in ascending order, at the same moments on
// all ranks.
using Gathered = std::function<Result<void>(ByteRange)>;

// Of blocks of so many bytes, which lie in their place in the output on those that have them.
// owners: for each place in the ring the rank whose block that one has; negative: none. A block's
// place is its owner's number in the whole group.
Result<void> ring_all_gather(Exchange& exchange, std::span<const int> owners, std::size_t block,
                             std::span<std::byte> output, const Gathered& gathered);
// How often `gathered` is told.
std::size_t gathered_ranges(const Exchange& exchange, std::size_t block);

// input may be its own block of output.
Result<void> ring_all_gather(Exchange& exchange, std::span<const std::byte> input,
                             std::span<std::byte> output);

}  // namespace lockstep
