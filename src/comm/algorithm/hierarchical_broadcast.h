// Hierarchical broadcast: H hosts, S bytes. The root's host gets all of it in the memory that its
// ranks share; of it the leaders of that host, the root first, each broadcast a slice to the
// leaders of the same slice on the other hosts, by another algorithm; those spread it within their
// hosts (host_slices.h).
//   Steps between hosts, and bytes that a host sends: those of that algorithm for H ranks and S
//   bytes; S reaches every other host once, the least possible. Parts as in
//   hierarchical_all_reduce.h.
#pragma once

#include "base/result.h"
#include "comm/algorithm/algorithm.h"
#include "comm/algorithm/call.h"
#include "comm/algorithm/exchange.h"

namespace lockstep {

Result<void> hierarchical_broadcast(Exchange& exchange, const Call& call, Algorithm between);

}  // namespace lockstep
