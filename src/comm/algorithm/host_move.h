// Collectives within a host that only move data: all-gather, broadcast, gather, scatter and
// all-to-all, in the memory that its ranks share.
//
// Each is the same thing: some ranks give input of one block, or of a block for each rank; each
// rank fetches some blocks of others into its output.
//   brought  inputs up to 16 KiB: one copy in, one out; one wait
//   pushed   all-gather and broadcast into lent memory: each rank stores one part of the result in
//            all outputs: its block, or its slice of the root's buffer. So each byte is read once,
//            not by each of the n - 1 others, and a root works, too. For S bytes of output S are
//            read and (n - 1) S written
//   lent     all inputs in lent memory: each rank copies from where they lie
//   staged   inputs elsewhere: in pieces, through staging memory
#pragma once

#include "base/result.h"
#include "comm/algorithm/call.h"
#include "comm/algorithm/host_group.h"

namespace lockstep {

// All ranks of the group are on this host.
Result<void> host_move(HostGroup& host, const Call& call);

}  // namespace lockstep
