// Hierarchical reduce-scatter, in the two stages of MiCS (Zhang et al. 2022): H hosts of m ranks
// each, a block of B bytes for each rank. Each rank reduces within its host, in the memory that its
// ranks share, the blocks of all that have its place; those ranks go on with them around a ring of
// H.
//   Steps between hosts: H - 1. Bytes sent by each rank: (H - 1) * B, by a host (H - 1) m B: the
//   least possible; a ring over all ranks sends (m H - 1) * B from each host, through one rank, in
//   m H - 1 steps.
// Hosts may have different numbers of ranks, as in hierarchical_all_gather.h.
// A block is reduced within the host just before it travels, piece by piece, so that other pieces
// travel meanwhile.
//   brought  inputs up to kBringBytes: one wait
//   lent     inputs in lent memory: read where they lie
//   staged   inputs elsewhere: through staging memory
// Bits: the shares of a host in the order of its ranks, then around the ring. 16-bit floats are
// rounded once for the host and after each addition of the ring; an average is divided last, and
// rounded again.
#pragma once

#include "base/result.h"
#include "comm/algorithm/call.h"
#include "comm/algorithm/exchange.h"

namespace lockstep {

Result<void> hierarchical_reduce_scatter(Exchange& exchange, const Call& call);

}  // namespace lockstep
