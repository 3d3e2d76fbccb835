// A replacement gets its state from a rank that holds the same.
#pragma once

#include "base/result.h"
#include "train/recovery/recovery.h"

namespace lockstep::train {

// Called by all ranks; it ends on all at once. Replacements receive masters, optimizer state,
// frozen parameters and buffers from the other ranks. Afterwards: model.sync_parameters().
Result<void> restore_replacements(const RecoveryPlan& plan, const RecoverableTraining& training);

}  // namespace lockstep::train
