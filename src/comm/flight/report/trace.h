// A trace for https://ui.perfetto.dev or chrome://tracing ("Trace Event Format"): a track for each
// rank, a slice for each call, named by operation and label.
#pragma once

#include <vector>

#include "comm/flight/diagnosis/group.h"
#include "text/json.h"

namespace lockstep::comm {

// Microseconds from the first call. A running call lasts until `now`; a call that is only queued is
// left out. The groups of a process are shown below each other. Sends and receives, which overlap,
// have slices of their own kind.
Json flight_trace(const std::vector<FlightGroup>& groups, FlightTime now);

}  // namespace lockstep::comm
