// The run and the node of these tests.
#pragma once

#include "platform/core/model/ids.h"

namespace lockstep::insight {

inline const model::RunId kRun{"demo", 1};
inline const model::NodeName kNode{"00000000000000aa", {{kRun, 1}, 0}};

// Node 0 of the attempt.
inline model::NodeName node_of(std::int64_t epoch, const model::RunId& run = kRun) {
  return {kNode.generation, {{run, epoch}, 0}};
}

}  // namespace lockstep::insight
