// One page of a run's log lines, and whether more can come.
#pragma once

#include "platform/api/messages.h"
#include "platform/insight/insight.h"

namespace lockstep::server {

Result<api::LogPage> log_page(insight::Insight& insight, const model::RunId& run,
                              const api::LogsQuery& query, bool run_ended);

}  // namespace lockstep::server
