// The memory that a rank has for its training.
#pragma once

#include <c10/core/Device.h>

#include "base/result.h"
#include "base/units.h"
#include "train/group/rank_placement.h"

namespace lockstep::train {

// For a GPU what is free or reserved by this process: other processes, the device's context and
// communicators that exist have the rest. On a CPU a rank's share of the host's main memory, or of
// the container's limit.
Result<Bytes> memory_per_rank(at::Device device, const RankPlacement& placement);

}  // namespace lockstep::train
