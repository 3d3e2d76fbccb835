// Hierarchical reduce: H hosts, S bytes. Within each host its leaders reduce one slice each. The
// leaders of a slice on all hosts reduce it to the root's host. The leaders there, the root first,
// send their slices to the root (host_slices.h). Bytes sent by a host other than the root's: S, the
// least possible, through all of its leaders; with trees at most S.
//   ring         a chain that ends at the root's host (ring_reduce.h). Steps between hosts: H - 1 +
//                pieces. A piece is reduced within its host just before it is sent, while others
//                travel, in separate memory.
//   double_tree  two trees (double_tree.h). Steps between hosts: log2 H + pieces. A leader keeps
//                its slice, S / leaders bytes: a tree needs a rank's share of a piece early, and
//                the sum of its children late.
// The buffers of other ranks do not change. Bits: the shares of a host in the order of its ranks,
// then along the chain or as in the tree. 16-bit floats are rounded once for the host and after
// each addition between hosts. An average is divided last, and rounded again.
#pragma once

#include "base/result.h"
#include "comm/algorithm/algorithm.h"
#include "comm/algorithm/collective_call.h"
#include "comm/algorithm/exchange/message_exchange.h"

namespace lockstep::comm {

// between: ring or double_tree.
Result<void> hierarchical_reduce(MessageExchange& exchange, const CollectiveCall& call,
                                 Algorithm between);

}  // namespace lockstep::comm
