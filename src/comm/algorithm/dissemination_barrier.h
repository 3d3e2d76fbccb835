// Dissemination barrier (Hensgen, Finkel and Manber 1988): in round k each rank tells the one 2^k
// further on and hears from the one 2^k before; after ceil(log2 n) rounds it has heard, through
// others, from all.
//   Steps: ceil(log2 n), each an empty message.
#pragma once

#include "base/result.h"
#include "comm/algorithm/exchange.h"

namespace lockstep {

Result<void> dissemination_barrier(Exchange& exchange);

}  // namespace lockstep
