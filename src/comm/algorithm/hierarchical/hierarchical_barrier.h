// Hierarchical barrier: all ranks of a host synchronize, the lowest ranks of the hosts synchronize
// by dissemination (dissemination_barrier.h), then all ranks of a host synchronize again. Steps
// between hosts: ceil(log2 H) for H hosts, each an empty message from each host.
#pragma once

#include "base/result.h"
#include "comm/algorithm/collective_call.h"
#include "comm/algorithm/exchange/message_exchange.h"

namespace lockstep::comm {

Result<void> hierarchical_barrier(MessageExchange& exchange, const CollectiveCall& call);

}  // namespace lockstep::comm
