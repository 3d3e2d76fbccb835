// The runs of a list that a user may read.
#pragma once

#include <optional>

#include "base/result.h"
#include "platform/api/messages.h"
#include "platform/core/model/ended_runs.h"
#include "platform/server/calls/call_context.h"
#include "platform/server/principal.h"

namespace lockstep::server {

// One more than the limit, which tells that there are more. None: the caller may not read the
// project.
std::optional<model::RunFilter> readable_runs(const CallContext& context, const Principal& caller,
                                              const api::RunsQuery& query);

}  // namespace lockstep::server
