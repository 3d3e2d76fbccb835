// piece_bytes_between_hosts: in pieces of which size much data travels between hosts, by what
// messages cost there; the same on all ranks of a group, as its costs are.
//
// Two pieces of a rank or three are under way at once (ring.h, swap.h), so that the wire never
// rests if one takes as long to send as a lone message takes to come: latency / per_byte. A larger
// one only does harm where processors are the limit: what lies in the slots of all links and in the
// kernels between them is out of their caches before it is read. There pieces of 60 KiB carry up to
// twice as much as those of 128 KiB or more.
//
// A slow wire leaves the processors time, and is worth more: while other threads compute, who is
// to send the next piece waits for a processor, up to a tick of the scheduler (4 ms), and the wire
// must have enough to do meanwhile.
#pragma once

#include <algorithm>
#include <bit>
#include <cstddef>

#include "comm/cost/costs.h"
#include "comm/fabric/link.h"

namespace lockstep {

// What a byte that comes and one that goes cost a processor, through both kernels and the slots, in
// times of what it takes to add one up. Measured over TCP.
inline constexpr double kTcpWork = 8;

// Whether processors fill the wire with ease. Four ranks may share one.
inline bool wire_is_slow(const Costs& costs) {
  return costs.between_hosts.per_byte > 4 * kTcpWork * costs.reduction;
}

// least: as Link::piece_bytes(), so many times that or twice that and so on, so that a little more
// latency changes nothing.
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

}  // namespace lockstep
