// How much memory a rank has for its training.
#pragma once

#include <c10/core/Device.h>

#include "base/result.h"
#include "base/units.h"
#include "train/places.h"

namespace lockstep {

// Of a GPU all of it; of the host's main memory, or of what a container may use of it, a rank's
// share.
Result<Bytes> memory_of(at::Device device, const Places& places);

}  // namespace lockstep
