// Ring all-gather. n ranks with a block of B bytes each; all get all blocks.
//   Steps: n - 1. Bytes sent by each rank: (n - 1) * B. A block is copied once into the output and
//   once into the next link.
#pragma once

#include <cstddef>
#include <span>

#include "base/result.h"
#include "comm/algorithm/exchange.h"

namespace lockstep {

// input may be its own block of output.
Result<void> ring_all_gather(Exchange& exchange, std::span<const std::byte> input,
                             std::span<std::byte> output);

}  // namespace lockstep
