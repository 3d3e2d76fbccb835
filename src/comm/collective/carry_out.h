// Which algorithm carries out a call. All ranks must choose alike, so the choice depends only on
// what is equal on all of them: the call, the group's size and which of its ranks are on one host.
#pragma once

#include "base/result.h"
#include "comm/algorithm/call.h"
#include "comm/algorithm/exchange.h"

namespace lockstep {

Result<void> carry_out(Exchange& exchange, const Call& call);

}  // namespace lockstep
