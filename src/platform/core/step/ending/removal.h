// Removal of an ended run (`lockstep rm`): no rows of it are left, so it is no event of step().
#pragma once

#include <vector>

#include "base/result.h"
#include "platform/core/model/state.h"

namespace lockstep::step {

// The error says what has to happen first. The state has the run, if there is one. `same_folder`:
// open runs that write to its checkpoint folder.
Result<void> check_removable(const model::State& state, const model::RunId& run,
                             const std::vector<model::RunId>& same_folder);

}  // namespace lockstep::step
