// Hierarchical all-reduce: H hosts, S bytes, in place. Within each host its leaders reduce a slice
// each; the leaders of a slice on all hosts all-reduce it by another algorithm; then each spreads
// it within its host (host_slices.h). Each host has as many leaders as the host with the fewest
// ranks has ranks; one, where there is little data.
//   Steps between hosts, and bytes that a host sends: those of that algorithm for H ranks and S
//   bytes; the ring: 2 (H - 1) / H * S, the least possible, where over all n ranks it sends
//   2 (n - 1) / n * S from each host. The leaders of a host share this equally.
// Large slices go in parts, so that reducing and spreading within the hosts goes on while other
// parts travel (parts.h). Within the host each byte is read and written as in host_reduce.h.
// Bits: the shares of a host in the order of its ranks, then as the algorithm says. 16-bit floats
// are rounded once for the host, and then where the algorithm does; an average is divided last, and
// rounded again.
// Source: two-level reduction as in Horovod's hierarchical all-reduce (NCCL within, MPI between).
#pragma once

#include "base/result.h"
#include "comm/algorithm/algorithm.h"
#include "comm/algorithm/call.h"
#include "comm/algorithm/exchange.h"

namespace lockstep {

Result<void> hierarchical_all_reduce(Exchange& exchange, const Call& call, Algorithm between);

}  // namespace lockstep
