// Executes a collective of a group on several hosts by a plan that fits it (algorithm.h).
#pragma once

#include "base/result.h"
#include "comm/algorithm/algorithm.h"
#include "comm/algorithm/collective_call.h"
#include "comm/algorithm/exchange/message_exchange.h"

namespace lockstep::comm {

Result<void> execute_plan(const CallPlan& plan, MessageExchange& exchange,
                          const CollectiveCall& call);

}  // namespace lockstep::comm
