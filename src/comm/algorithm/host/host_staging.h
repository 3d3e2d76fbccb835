// Steps of a host's ranks for buffers that are not in the shared heap. In pieces, each rank copies
// the data that others need into its staging memory. All ranks reach a barrier, and each copies
// what it needs from the others' staging memory. Each byte is copied in and out once more than with
// zero-copy.
#pragma once

#include <array>
#include <cstddef>
#include <functional>
#include <span>

#include "base/result.h"
#include "comm/algorithm/exchange/slice.h"
#include "comm/algorithm/host/host_group.h"
#include "comm/reduction/reduction.h"

namespace lockstep::comm {

// A value for each rank of a host.
template <class Value>
using PerLocalRank = std::array<Value, kReductionOperands>;

// The byte range of a buffer that belongs to a rank; the same function on all ranks of the host.
using RangeOf = std::function<ByteRange(std::size_t local_rank)>;

// Each rank gets, for its own range, the reduction over all ranks' inputs in `output`, in the order
// of local ranks. `output` may be that range of the own input.
Result<void> staged_reduce(HostGroup& host, std::span<const std::byte> input,
                           const RangeOf& range_of, std::byte* output,
                           const ReductionSpec& reduction);

// The taker receives into its buffer the data that each other rank has made for its range.
Result<void> staged_gather(HostGroup& host, const std::byte* made, std::byte* buffer,
                           std::size_t taker, const RangeOf& range_of);

// All ranks get the range of each rank from that rank, in place.
Result<void> staged_all_gather(HostGroup& host, std::byte* buffer, const RangeOf& range_of);

}  // namespace lockstep::comm
