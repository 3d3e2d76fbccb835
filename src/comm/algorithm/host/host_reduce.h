// Reductions within a host, in the memory that its ranks share. n ranks, S bytes each.
//
// Each element is reduced by one rank, in the order of the ranks, on every path. So neither path
// nor timing changes a bit.
//   inline     little data: each rank reads all of it and reduces for itself; one wait, (n - 1) S
//              bytes read.
//   zero-copy  all buffers in the shared heap: each rank reduces its slice of S / n bytes from the
//              operands in place, and stores the result straight into every buffer (reads S, writes
//              S).
//   staged     buffers elsewhere: the same in pieces, through staging memory (each byte is copied
//              in and out once more).
// One-sided puts replace messages, as in MSCCL++'s memory channels. The alternative, where a rank
// writes only its own slice and copies the others, was slower at every size.
#pragma once

#include "base/result.h"
#include "comm/algorithm/collective_call.h"
#include "comm/algorithm/host/host_group.h"

namespace lockstep::comm {

// All ranks of the group are on this host. In place, in the call's output.
Result<void> host_all_reduce(HostGroup& host, const CollectiveCall& call);
// In place, at the root.
Result<void> host_reduce(HostGroup& host, const CollectiveCall& call);
// From n blocks of input to one of output.
Result<void> host_reduce_scatter(HostGroup& host, const CollectiveCall& call);

}  // namespace lockstep::comm
