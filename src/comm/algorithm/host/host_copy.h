// Collectives within a host that only move data: all-gather, broadcast, gather, scatter and
// all-to-all, in the memory that the ranks of the host share.
//
// All have the same form. Some ranks have an input of one block, or of a block for each rank. Each
// rank copies some blocks of others to its output.
//   inline     inputs up to 16 KiB: one copy in, one out; one wait
//   pushed     all-gather and broadcast into the shared heap: each rank stores one part of the
//              result in all outputs: its block, or its slice of the root's buffer. So each byte is
//              read once, not by each of the n - 1 others, and the root also works. For S bytes of
//              output S are read and (n - 1) S written
//   zero-copy  all inputs in the shared heap: each rank copies from them in place
//   staged     inputs elsewhere: in pieces, through staging memory
#pragma once

#include "base/result.h"
#include "comm/algorithm/collective_call.h"
#include "comm/algorithm/host/host_group.h"

namespace lockstep::comm {

// All ranks of the group are on this host.
Result<void> host_copy(HostGroup& host, const CollectiveCall& call);

}  // namespace lockstep::comm
