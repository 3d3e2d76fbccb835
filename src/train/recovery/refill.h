// A newcomer gets its state from a rank that holds the same.
#pragma once

#include "base/result.h"
#include "train/recovery/recovery.h"

namespace lockstep {

// Called by all ranks: those of a replicate group that are newcomers take masters, optimizer state,
// frozen parameters and buffers of one that is not. newcomer: this rank is one. Afterwards:
// model.spread().
Result<void> refill(const RecoveryPlan& plan, bool newcomer, const Training& training);

}  // namespace lockstep
