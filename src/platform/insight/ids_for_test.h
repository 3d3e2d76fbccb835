// The run and the node of these tests.
#pragma once

#include "platform/core/model/ids.h"

namespace lockstep::insight {

inline const model::RunId kRun{"demo", 1};
inline const model::NodeId kNode{{kRun, 1}, 0};

}  // namespace lockstep::insight
