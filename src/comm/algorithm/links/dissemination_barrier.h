// Dissemination barrier (Hensgen, Finkel and Manber 1988). In round k each rank sends to the rank
// 2^k after it and receives from the rank 2^k before it. After ceil(log2 n) rounds each rank
// depends on messages from all others, directly or indirectly. Steps: ceil(log2 n), each an empty
// message.
#pragma once

#include "base/result.h"
#include "comm/algorithm/exchange/message_exchange.h"

namespace lockstep::comm {

Result<void> dissemination_barrier(MessageExchange& exchange);

}  // namespace lockstep::comm
