// Reports to the rank's agent why a group of ranks ended, before the error is raised: a lost
// connection or a timeout of the run's network is no failure of the user's program, whatever its
// exit code. Works for every group of the process over our own backend.
#pragma once

#include <string_view>

#include "base/result.h"

namespace lockstep::train {

// From now on; a second call does nothing.
void enable_fault_reports();

// For a process that may continue without the lost rank: defers fault reports from now on. The
// first one since the last clear_deferred_fault() counts.
void defer_fault_reports();
void clear_deferred_fault();
// The rank cannot continue: reports the deferred fault to the agent. false: there was none.
bool report_deferred_fault();
// The same for an error that no group has reported; `rank`: at fault, -1 if it is not known.
void report_fault(const Error& error, int rank);
// True if the deferred fault is a lost connection.
bool has_lost_connection();

}  // namespace lockstep::train
