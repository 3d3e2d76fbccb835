// Carries out a collective of a group on several hosts by a plan that fits it (algorithm.h).
#pragma once

#include "base/result.h"
#include "comm/algorithm/algorithm.h"
#include "comm/algorithm/call.h"
#include "comm/algorithm/exchange.h"

namespace lockstep {

Result<void> carry_out_by(const CallPlan& plan, Exchange& exchange, const Call& call);

}  // namespace lockstep
