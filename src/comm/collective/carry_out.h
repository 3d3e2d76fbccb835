// Who carries a collective out: nobody, in a group of one; the ranks of one host in the memory that
// they share; else an algorithm that is chosen for it.
#pragma once

#include "base/result.h"
#include "comm/algorithm/call.h"
#include "comm/algorithm/exchange.h"
#include "comm/choice/chooser.h"

namespace lockstep {

Result<void> carry_out(Exchange& exchange, const Call& call, Chooser& chooser);

}  // namespace lockstep
