// The rule of docs/design/silence.md, stated a second time: many nodes are silent at once.
#pragma once

#include "platform/core/model/state.h"

namespace lockstep::sim {

// By the rows: more than a fifth of the nodes that have called and have not ended is unreachable,
// on two hosts at least.
bool is_silence_widespread(const model::State& rows);

}  // namespace lockstep::sim
