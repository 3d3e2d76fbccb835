// The first error of attempts that failed: the rank that failed first, by the diagnosis of the
// ranks' ends, and the error in the last lines of its output.
#pragma once

#include <vector>

#include "platform/api/messages.h"
#include "platform/core/model/state.h"
#include "platform/insight/insight.h"

namespace lockstep::server {

// `views`: all attempts of the run, oldest first. Looks at the last kAttemptsWithError that failed.
Result<void> add_first_errors(std::vector<api::AttemptView>& views, const model::State& state,
                              const model::RunId& run, insight::Insight& insight);

}  // namespace lockstep::server
