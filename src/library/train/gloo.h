// A process group of PyTorch's Gloo, to compare Lockstep with.
#pragma once

#include <c10/util/intrusive_ptr.h>

#include "base/result.h"
#include "base/units.h"

namespace c10d {
class ProcessGroup;
}

namespace lockstep {

// Through a TCPStore at MASTER_ADDR and MASTER_PORT, for RANK of WORLD_SIZE. Collective: each rank
// calls it equally often.
Result<c10::intrusive_ptr<c10d::ProcessGroup>> connect_gloo(Duration timeout);

}  // namespace lockstep
