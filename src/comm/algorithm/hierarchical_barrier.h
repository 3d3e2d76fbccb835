// Hierarchical barrier: all ranks of a host meet, the lowest of each host meet by dissemination
// (dissemination_barrier.h), then all of a host meet again.
//   Steps between hosts: ceil(log2 H) for H hosts, each an empty message from each host.
#pragma once

#include "base/result.h"
#include "comm/algorithm/call.h"
#include "comm/algorithm/exchange.h"

namespace lockstep {

Result<void> hierarchical_barrier(Exchange& exchange, const Call& call);

}  // namespace lockstep
