// Hierarchical reduce: H hosts, S bytes. Within each host its leaders reduce a slice each, the
// leaders of a slice on all hosts reduce that among them to the root's host, and the leaders there,
// the root first, hand it their slices (host_slices.h). Bytes sent by a host but the root's: S, the
// least possible, through all of its leaders; by trees up to that, too.
//   ring         a chain that ends at the root's host (ring_reduce.h). Steps between hosts: H - 1 +
//                pieces. A piece is reduced within its host just before it travels, while others
//                travel, in memory of its own.
//   double_tree  two trees (double_tree.h). Steps between hosts: log2 H + pieces. A leader keeps
//                its slice, S / leaders bytes: to a tree a rank's share of a piece comes early, and
//                the sum of its children late.
// The buffers of other ranks stay as they are.
// Bits: the shares of a host in the order of its ranks, then along the chain or as in the tree.
// 16-bit floats are rounded once for the host and after each addition between hosts; an average is
// divided last, and rounded again.
#pragma once

#include "base/result.h"
#include "comm/algorithm/algorithm.h"
#include "comm/algorithm/call.h"
#include "comm/algorithm/exchange.h"

namespace lockstep {

// between: ring or double_tree.
Result<void> hierarchical_reduce(Exchange& exchange, const Call& call, Algorithm between);

}  // namespace lockstep
