// All ranks agree on the gradients' norm before any of them steps. The norm also shows that all
// ranks are present and have finite gradients. A rank that is lost or overflows never leaves the
// others with parameters that differ.
#pragma once

#include "base/result.h"
#include "train/shard.h"

namespace lockstep::train {

// The norm of the finished gradients, over all parameters and ranks, each element once; infinity if
// any rank's are not finite. The same bits on every rank. Collective.
Result<double> global_gradient_norm(ShardedModel& model);

// Multiplies this rank's finished gradients.
void scale_gradients(ShardedModel& model, double factor);

}  // namespace lockstep::train
