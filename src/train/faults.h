// What ends a group of ranks, told to the rank's agent before the error is raised: a lost
// connection or a time-out of the run's network is no failure of the user's program, whatever exit
// code it gives. Works for every group of the process over our own backend, whoever made it.
#pragma once

#include <string_view>

#include "base/result.h"

namespace lockstep {

// From now on; again: nothing.
void report_faults();

// For a process that may go on without the lost rank: keeps faults back from now on. The first one
// since the last forget_fault() counts.
void keep_faults();
void forget_fault();
// It cannot go on: tells the agent the fault that was kept. false: none was.
bool report_kept_fault();
// The same of an error that no group has told; `rank`: at fault, -1 if it is not known.
void report_fault(const Error& error, int rank);
// The fault that is kept is a lost connection.
bool has_lost_connection();

}  // namespace lockstep
