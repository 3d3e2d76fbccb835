// Agreement: what all ranks know before any of them steps: the gradients' norm, and by that, that
// everybody is there and has finite ones. A rank that dies or overflows never leaves the others
// with parameters that differ.
#pragma once

#include "base/result.h"
#include "train/shard.h"

namespace lockstep {

// Of the finished gradients, over all parameters and ranks, each element once; infinity where any
// rank's are not finite. The same bits on every rank. Collective.
Result<double> agree_on_norm(ShardedModel& model);

// Multiplies this rank's finished gradients.
void scale_gradients(ShardedModel& model, double factor);

}  // namespace lockstep
