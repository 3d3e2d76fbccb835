// A recovery in one line, for the log and the run's events. Ranks have the numbers with which they
// were started.
#pragma once

#include <cstdint>
#include <string>

#include "base/units.h"
#include "train/recovery/recovery_plan.h"

namespace lockstep::train {

// step: after which they continue; from a checkpoint, the steps after it are repeated. took: from
// the detection until they could continue.
//   rank 1 was lost; rank 0 leaves, no replica needs it; ranks 2 and 3 go on as ranks 0 and 1 after
//   step 41 from memory, 380ms after they noticed
std::string describe_recovery(const RecoveryPlan& plan, std::int64_t step, Duration took);

}  // namespace lockstep::train
