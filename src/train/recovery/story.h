// A recovery in one line, for the log and the run's events. Ranks are called by the numbers with
// which they were started.
#pragma once

#include <cstdint>
#include <string>

#include "base/units.h"
#include "train/recovery/plan.h"

namespace lockstep {

// step: after which they go on; behind it are those that are done again, of a checkpoint. took:
// from when the ranks noticed until they could.
//   rank 1 was lost; rank 0 leaves, no replica needs it; ranks 2 and 3 go on as ranks 0 and 1 after
//   step 41 from memory, 380ms after they noticed
std::string story_of(const RecoveryPlan& plan, std::int64_t step, Duration took);

}  // namespace lockstep
