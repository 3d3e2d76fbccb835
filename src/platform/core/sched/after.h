// Dependencies between runs: one starts after others have ended.
#pragma once

#include <functional>
#include <span>
#include <vector>

#include "base/result.h"
#include "platform/core/model/ids.h"

namespace lockstep {

// Whether the run, if it had to wait for `after`, would wait for itself; after_of: for whom a run
// waits that is there already. The error names the way round. Cost: the runs that can be reached.
Result<void> check_no_cycle(const RunId& run, std::span<const RunId> after,
                            const std::function<std::vector<RunId>(const RunId&)>& after_of);

}  // namespace lockstep
