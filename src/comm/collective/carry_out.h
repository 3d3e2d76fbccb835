// Who carries a collective out: nobody, in a group of one; the ranks of one host in the memory that
// they share; else an algorithm that is chosen for it.
#pragma once

#include <optional>

#include "base/result.h"
#include "comm/algorithm/algorithm.h"
#include "comm/algorithm/call.h"
#include "comm/algorithm/exchange.h"

namespace lockstep {

// forced: in place of the choice, wherever it fits; the same on all ranks.
Result<void> carry_out(Exchange& exchange, const Call& call, const std::optional<Plan>& forced);

}  // namespace lockstep
