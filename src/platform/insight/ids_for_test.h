// The run and the node of these tests.
#pragma once

#include "platform/core/model/ids.h"

namespace lockstep {

inline const RunId kRun{"demo", 1};
inline const NodeId kNode{{kRun, 1}, 0};

}  // namespace lockstep
