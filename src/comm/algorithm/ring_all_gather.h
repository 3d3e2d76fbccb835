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

// input may be its own block of output. A block's place in the output is its rank's number in the
// whole group, also where the exchange is among some of its ranks.
Result<void> ring_all_gather(Exchange& exchange, std::span<const std::byte> input,
                             std::span<std::byte> output, const Gathered& gathered = {});

}  // namespace lockstep
