// The number of files and connections that this process may have open.
#pragma once

#include "base/result.h"

namespace lockstep {

// Raises the soft limit to the hard one. Code::exhausted if that is below 256, which is too few for
// the daemon and the agents.
Result<void> raise_file_limit();

}  // namespace lockstep
