// The end of an external run: another launcher has started its ranks, and no engine knows them. It
// ends when no rank runs any more, as far as its agents say (docs/design/external-runs.md).
#pragma once

#include "platform/core/step/handlers/draft.h"

namespace lockstep::step {

// After the last rank has ended: a rank that reports late may still join.
inline constexpr Duration kLateRankLimit = std::chrono::seconds(3);

// At a tick. Silent nodes are lost. Ends the run when all ranks have ended or are lost.
void check_external_run(Draft& draft, const model::AttemptId& attempt, const model::Tick& tick);

}  // namespace lockstep::step
