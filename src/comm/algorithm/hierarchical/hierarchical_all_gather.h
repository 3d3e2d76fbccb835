// Hierarchical all-gather, the first of the two stages of the gather in MiCS (Zhang et al. 2022). H
// hosts of m ranks each, a block of B bytes each. The ranks with the same local rank on all hosts
// gather their blocks around a ring of H. Each shares the blocks that it has with its host, in
// shared memory.
//   Steps between hosts: H - 1.
//   Bytes sent by each rank: (H - 1) * B, by a host (H - 1) m B, which is the least possible. A
//         ring over all ranks sends (m H - 1) * B from each host, through one rank, in m H - 1
//         steps.
//   inline     all blocks together up to kInlineBytes: one wait
//   zero-copy  outputs in the shared heap: a received block is copied to all ranks of the host
//              while more arrive
//   staged     outputs elsewhere: the same in pieces, through staging memory
// Hosts may have different numbers of ranks. On a host with fewer ranks than another, each rank
// also serves missing local ranks, one after the other (BlockRails in rail.h). A host sends the
// blocks of all ranks but the next host's, each once.
#pragma once

#include "base/result.h"
#include "comm/algorithm/collective_call.h"
#include "comm/algorithm/exchange/message_exchange.h"

namespace lockstep::comm {

Result<void> hierarchical_all_gather(MessageExchange& exchange, const CollectiveCall& call);

}  // namespace lockstep::comm
