// piece_bytes_between_hosts: in pieces of which size much data travels between hosts, by what
// messages cost there; the same on all ranks of a group, as its costs are.
//
// Two pieces of a rank are under way at once (ring.h, swap.h), so that the wire never rests if one
// takes as long to send as a lone message takes to come: latency / per_byte. A larger one only
// does harm: what lies in the slots of all links and in the kernels between them is out of the
// processor's caches before it is read. Where processors are the limit and not the wire, pieces of
// 32 KiB carry up to twice as much as those of 512 KiB, and those of 8 KiB half as much.
#pragma once

#include <algorithm>
#include <bit>
#include <cstddef>

#include "comm/cost/costs.h"
#include "comm/fabric/link.h"

namespace lockstep {

// least: as Link::piece_bytes(). A power of two, so that a little more latency changes nothing.
inline std::size_t piece_bytes_between_hosts(const Costs& costs,
                                             std::size_t least = kTcpPieceBytes) {
  const auto& cost = costs.between_hosts;
  const double most = kSlotBytes;
  const double covering = cost.latency < most * cost.per_byte ? cost.latency / cost.per_byte : most;
  return std::clamp(std::bit_ceil(static_cast<std::size_t>(covering)), least, kSlotBytes);
}

}  // namespace lockstep
