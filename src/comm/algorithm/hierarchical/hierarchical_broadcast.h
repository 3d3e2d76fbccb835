// Hierarchical broadcast: H hosts, S bytes. The root's host gets all data in the memory that its
// ranks share. Each leader of that host, the root first, broadcasts one slice to the leaders of the
// same slice on the other hosts, by another algorithm. Those distribute it within their hosts
// (host_slices.h).
//   Steps between hosts, and bytes that a host sends: those of that algorithm for H ranks and S
//         bytes. S reaches every other host once, the least possible.
// Parts as in hierarchical_all_reduce.h.
#pragma once

#include "base/result.h"
#include "comm/algorithm/algorithm.h"
#include "comm/algorithm/collective_call.h"
#include "comm/algorithm/exchange/message_exchange.h"

namespace lockstep::comm {

Result<void> hierarchical_broadcast(MessageExchange& exchange, const CollectiveCall& call,
                                    Algorithm between);

}  // namespace lockstep::comm
