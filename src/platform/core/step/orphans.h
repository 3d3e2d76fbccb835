// What becomes of orphans: core/model/orphan.h.
#pragma once

#include "platform/core/step/draft.h"

namespace lockstep {

// Its agent says how its ranks are.
Result<void> note_orphan(Draft& draft, const NodeReport& report);
// At a tick: those that an operator has had stopped, and that have not obeyed, end by force.
void check_orphans(Draft& draft);

}  // namespace lockstep
