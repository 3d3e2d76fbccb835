// Hierarchical all-reduce: H hosts, S bytes, in place. Within each host its leaders reduce one
// slice each. The leaders of a slice on all hosts all-reduce it by another algorithm. Then each
// leader distributes its slice within its host (host_slices.h). The number of leaders of each host
// is the rank count of the host with the fewest ranks; it is one for little data.
//   Steps between hosts, and bytes that a host sends: those of that algorithm for H ranks and S
//         bytes. The ring: 2 (H - 1) / H * S, the least possible. Over all n ranks it would send 2
//         (n - 1) / n * S from each host. The leaders of a host share this equally.
// Large slices are exchanged in parts, so reducing and distributing within the hosts overlaps with
// the messages of other parts (buffer_parts.h). Within the host each byte is read and written as in
// host_reduce.h.
//   Bits: the shares of a host in the order of its ranks, then as the algorithm says. 16-bit floats
//         are rounded once for the host, and then where the algorithm does. An average is divided
//         last, and rounded again.
// Source: two-level reduction as in Horovod's hierarchical all-reduce (NCCL within, MPI between).
#pragma once

#include "base/result.h"
#include "comm/algorithm/algorithm.h"
#include "comm/algorithm/collective_call.h"
#include "comm/algorithm/exchange/message_exchange.h"

namespace lockstep::comm {

Result<void> hierarchical_all_reduce(MessageExchange& exchange, const CollectiveCall& call,
                                     Algorithm between);

}  // namespace lockstep::comm
