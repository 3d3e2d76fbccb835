// A newcomer gets its state from a rank that holds the same.
#pragma once

#include "base/result.h"
#include "train/recovery/recovery.h"

namespace lockstep {

// Called by all ranks, and over for all at once: newcomers take masters, optimizer state, frozen
// parameters and buffers of ranks that are none. Afterwards: model.spread().
Result<void> refill(const RecoveryPlan& plan, const Training& training);

}  // namespace lockstep
