// Hierarchical reduce-scatter, in the two stages of MiCS (Zhang et al. 2022). H hosts of m ranks
// each, a block of B bytes for each rank. Each rank reduces within its host, in shared memory, the
// blocks of all ranks with its local rank. The ranks with the same local rank on all hosts then
// reduce these around a ring of H.
//   Steps between hosts: H - 1.
//   Bytes sent by each rank: (H - 1) * B, by a host (H - 1) m B, the least possible. A ring over
//         all ranks sends (m H - 1) * B from each host, through one rank, in m H - 1 steps.
// Hosts may have different numbers of ranks, as in hierarchical_all_gather.h. A block is reduced
// within the host just before it is sent, piece by piece, so that other pieces travel at the same
// time.
//   inline     inputs up to kInlineBytes: one wait
//   zero-copy  inputs in the shared heap: read in place
//   staged     inputs elsewhere: through staging memory
// Bits: the shares of a host in the order of its ranks, then around the ring. 16-bit floats are
// rounded once for the host and after each addition of the ring. An average is divided last, and
// rounded again.
#pragma once

#include "base/result.h"
#include "comm/algorithm/collective_call.h"
#include "comm/algorithm/exchange/message_exchange.h"

namespace lockstep::comm {

Result<void> hierarchical_reduce_scatter(MessageExchange& exchange, const CollectiveCall& call);

}  // namespace lockstep::comm
