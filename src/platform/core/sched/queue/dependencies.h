// Dependencies between runs: a run starts after others have ended.
#pragma once

#include <functional>
#include <span>
#include <vector>

#include "base/result.h"
#include "platform/core/model/ids.h"

namespace lockstep::sched {

// Checks that the run would not wait for itself if it had to wait for `after`. `after_of` returns
// the dependencies of an existing run. The error names the cycle. Cost: linear in the reachable
// runs.
Result<void> check_no_cycle(
    const model::RunId& run, std::span<const model::RunId> after,
    const std::function<std::vector<model::RunId>(const model::RunId&)>& after_of);

}  // namespace lockstep::sched
