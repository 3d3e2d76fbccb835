// What the ranks of a host do with buffers that are not in memory that they lend: in pieces, each
// copies into its staging memory what others need, all meet, and each takes what it needs from the
// others'. Each byte is copied in and out once more than it would be from lent memory.
#pragma once

#include <array>
#include <cstddef>
#include <functional>
#include <span>

#include "base/result.h"
#include "comm/algorithm/host_group.h"
#include "comm/algorithm/slice.h"
#include "comm/reduction/reduction.h"

namespace lockstep {

// Something of each rank of a host.
template <class Value>
using PerPlace = std::array<Value, kReductionOperands>;

// The bytes of a buffer that are a rank's; the same function on all ranks of the host.
using RangeOf = std::function<ByteRange(std::size_t place)>;

// Of the range of each rank that rank gets the reduction over all ranks' inputs, in the order of
// the places, into `output`. It may be where the range lies in the own input.
Result<void> staged_reduce(HostGroup& host, std::span<const std::byte> input,
                           const RangeOf& range_of, std::byte* output,
                           const ReductionSpec& reduction);

// The taker gets what each other rank has made of its range, into its buffer.
Result<void> staged_hand(HostGroup& host, const std::byte* made, std::byte* buffer,
                         std::size_t taker, const RangeOf& range_of);

// Of the range of each rank all others get that rank's bytes, in place.
Result<void> staged_spread(HostGroup& host, std::byte* buffer, const RangeOf& range_of);

}  // namespace lockstep
