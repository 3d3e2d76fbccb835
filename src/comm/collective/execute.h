// Executes a collective. A group of one only copies. The ranks of one host use the memory that they
// share. Otherwise a chosen algorithm runs.
#pragma once

#include "base/result.h"
#include "comm/algorithm/collective_call.h"
#include "comm/algorithm/exchange/message_exchange.h"
#include "comm/choice/plan_chooser.h"

namespace lockstep::comm {

Result<void> execute(MessageExchange& exchange, const CollectiveCall& call, PlanChooser& chooser);

}  // namespace lockstep::comm
