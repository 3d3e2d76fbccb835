// The runs that a query line selects among those that a user may read.
#pragma once

#include <vector>

#include "base/result.h"
#include "platform/api/messages.h"
#include "platform/server/calls/call_context.h"
#include "platform/server/principal.h"
#include "platform/store/run_query.h"

namespace lockstep::server {

// With `query`, and with the other parameters. A line with `group:` has no limit but that of the
// runs that a call looks at. Code::invalid: a word that cannot be understood.
Result<store::SelectedRuns> select_runs(const CallContext& context, const Principal& caller,
                                        const api::RunsQuery& query);

// The groups in the order of their first runs.
std::vector<api::RunGroup> groups_of(const std::vector<store::SelectedRun>& runs);

// Why a query may not find all runs, for the reader; empty: it does.
std::string unread_runs_problem(const CallContext& context);

}  // namespace lockstep::server
