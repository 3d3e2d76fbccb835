// Handling of orphans, see core/model/orphan.h.
#pragma once

#include "platform/core/step/handlers/draft.h"

namespace lockstep::step {

// Records a report of an orphan's agent on the state of its ranks.
Result<void> record_orphan_report(Draft& draft, const model::NodeReport& report);
// At a tick: kills stopped orphans that did not end in time.
void check_orphans(Draft& draft);

}  // namespace lockstep::step
