// Fairness: how far a project is beyond its fair share when a run of it comes, by the
// weights of those that have used any.
#pragma once

#include <string>

#include "platform/core/step/draft.h"

namespace lockstep {

// In percent, as Want::share takes it: of what projects have had in the last week, by the days on
// which their runs ended, and what those that have not ended may take by their time-outs.
int share_of(const Draft& draft, const std::string& project);

}  // namespace lockstep
