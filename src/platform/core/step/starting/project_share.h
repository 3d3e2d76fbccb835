// The fair share that a project has used when a run of it is submitted, by the weights of all
// projects that have used any.
#pragma once

#include <string>

#include "platform/core/step/handlers/draft.h"

namespace lockstep::step {

// In percent, as in PendingRun::fair_share_used. It counts the device time of the last week, by the
// day on which runs ended, plus what open runs may still take by their time limits.
int fair_share_used_by(const Draft& draft, const std::string& project);

}  // namespace lockstep::step
