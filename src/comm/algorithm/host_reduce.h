// Reductions within a host, in the memory that its ranks share. n ranks, S bytes each.
//
// Each element is reduced by one rank, in the order of the ranks, whatever the path: so neither
// path nor timing changes a bit.
//   brought  little: everybody reads all and reduces for itself; one wait, (n - 1) S bytes read.
//   lent     all buffers in lent memory: each rank reduces its slice of S / n bytes from where the
//            operands lie, and stores the result straight into every buffer (reads S, writes S).
//   staged   buffers elsewhere: the same in pieces, through staging memory (each byte is copied in
//            and out once more).
// One-sided puts in place of messages, as in MSCCL++'s memory channels. To write the own slice
// only, and to have each rank fetch the others, was measured slower at every size.
#pragma once

#include "base/result.h"
#include "comm/algorithm/call.h"
#include "comm/algorithm/host_group.h"

namespace lockstep {

// All ranks of the group are on this host. In place, in the call's output.
Result<void> host_all_reduce(HostGroup& host, const Call& call);
// In place at the root.
Result<void> host_reduce(HostGroup& host, const Call& call);
// From n blocks of input to one of output.
Result<void> host_reduce_scatter(HostGroup& host, const Call& call);

}  // namespace lockstep
