// Hierarchical reduce: H hosts, S bytes. Within each host its leaders reduce a slice each, the
// leaders of a slice on all hosts make a chain that ends at the root's host (ring_reduce.h), and
// the leaders there, the root first, hand it their slices (host_slices.h).
//   Steps between hosts: H - 1 + pieces. Bytes sent by a host but the root's: S, the least
//   possible, through all of its leaders.
// A piece is reduced within its host just before it travels, while others travel, in memory of its
// own: the buffers of other ranks stay as they are.
// Bits: the shares of a host in the order of its ranks, then along the chain. 16-bit floats are
// rounded once for the host and after each addition of the chain; an average is divided last, and
// rounded again.
#pragma once

#include "base/result.h"
#include "comm/algorithm/call.h"
#include "comm/algorithm/exchange.h"

namespace lockstep {

Result<void> hierarchical_reduce(Exchange& exchange, const Call& call);

}  // namespace lockstep
