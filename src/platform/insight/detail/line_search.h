// The search of a run's lines, a slice at a time: the daemon has one thread.
#pragma once

#include "platform/insight/detail/run_counters.h"
#include "platform/insight/insight.h"

namespace lockstep::insight {

Result<api::LogMatches> search_lines(store::Database& database, const RunCounters& counters,
                                     const LogSearch& search);

}  // namespace lockstep::insight
