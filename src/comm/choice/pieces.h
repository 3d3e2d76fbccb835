// piece_bytes_between_hosts: the size of the pieces in which large data is sent between hosts. It
// depends on the cost of messages there, and is the same on all ranks of a group, as its costs are.
//
// A rank has two or three pieces in flight (ring.h, transfer.h). So the wire is always busy if a
// piece takes as long to send as a single message takes to arrive: latency / per_byte. Larger
// pieces are slower where processors are the limit: data in the slots of all links and in the
// kernels between them leaves the caches before it is read. There pieces of 60 KiB give up to twice
// the throughput of pieces of 128 KiB or more.
//
// A slow wire leaves the processors idle time, and is the scarcer resource. While other threads
// compute, the thread that sends the next piece waits for a processor, up to a scheduler tick (4
// ms). The wire must have enough data for that time.
#pragma once

#include <algorithm>
#include <bit>
#include <cstddef>

#include "comm/cost/costs.h"
#include "comm/fabric/link.h"

namespace lockstep::comm {

// The processor cost of one received byte and one sent byte, through both kernels and the slots, as
// a multiple of the cost to reduce a byte. Measured over TCP.
inline constexpr double kTcpWork = 8;

// True if processors saturate the wire easily. Four ranks may share a processor.
inline bool wire_is_slow(const Costs& costs) {
  return costs.between_hosts.per_byte > 4 * kTcpWork * costs.reduction;
}

// least: as Link::piece_bytes(). The result is that size times a power of two, so small differences
// in latency change nothing.
inline std::size_t piece_bytes_between_hosts(const Costs& costs,
                                             std::size_t least = kTcpPieceBytes) {
  constexpr double kHalfATick = 2e-3;
  const auto& cost = costs.between_hosts;
  const double most = kSlotBytes;
  const double seconds = cost.latency + (wire_is_slow(costs) ? kHalfATick : 0);
  const double covering = seconds < most * cost.per_byte ? seconds / cost.per_byte : most;
  const auto times = std::bit_ceil((static_cast<std::size_t>(covering) + least - 1) / least);
  return std::clamp(times * least, least, kSlotBytes);
}

}  // namespace lockstep::comm
