// Hierarchical all-gather, the first of the two stages that MiCS (Zhang et al. 2022) gathers in: H
// hosts of m ranks each, a block of B bytes each. The ranks with the same place on all hosts gather
// their blocks around a ring of H; each gives what it has within its host, in the memory that its
// ranks share.
//   Steps between hosts: H - 1. Bytes sent by each rank: (H - 1) * B, by a host (H - 1) m B: what
//   the others must get from it, the least possible; a ring over all ranks sends (m H - 1) * B from
//   each host, through one rank, in m H - 1 steps.
//   brought  all blocks together up to kBringBytes: one wait
//   lent     outputs in lent memory: what has come is copied to all of the host while more comes
//   staged   outputs elsewhere: the same in pieces, through staging memory
// Hosts may have different numbers of ranks: on one with fewer than another each rank stands in for
// several places, one after the other (BlockLanes in lane.h). A host sends the blocks of all ranks
// but the next host's, each once.
#pragma once

#include "base/result.h"
#include "comm/algorithm/call.h"
#include "comm/algorithm/exchange.h"

namespace lockstep {

Result<void> hierarchical_all_gather(Exchange& exchange, const Call& call);

}  // namespace lockstep
