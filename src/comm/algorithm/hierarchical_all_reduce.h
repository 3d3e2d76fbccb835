// Hierarchical all-reduce: H hosts with m ranks each, S bytes. Within each host every rank reduces
// its slice of S / m bytes; the ranks with the same place on all hosts reduce their slices around a
// ring of H; then each spreads its slice within its host.
//   Steps between hosts: 2 (H - 1). Bytes that each host sends: 2 (H - 1) / H * S, the least
//   possible, where a flat ring over n = m H ranks sends 2 (n - 1) / n * S; each rank sends a share
//   of 1 / m, so that all of a host's ranks drive its network.
// Within the host each byte is read and written as in host_reduce.h.
// Source: two-level reduction as in Horovod's hierarchical all-reduce (NCCL within, MPI between).
#pragma once

#include "base/result.h"
#include "comm/algorithm/call.h"
#include "comm/algorithm/exchange.h"

namespace lockstep {

// Whether all hosts have the same number of ranks, more than one, that share memory.
bool fits_hierarchical(Exchange& exchange);
// Where it fits. In place.
Result<void> hierarchical_all_reduce(Exchange& exchange, const Call& call);

}  // namespace lockstep
