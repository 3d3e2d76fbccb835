// A trace for https://ui.perfetto.dev or chrome://tracing ("Trace Event Format"): a track a rank,
// a slice a call, named by operation and label.
#pragma once

#include <vector>

#include "comm/flight/verdict/group.h"
#include "text/json.h"

namespace lockstep {

// Microseconds from the first call on. A call under way lasts until `now`; one that is only queued
// is left out. The groups that a process belongs to lie below each other, and sends and receives,
// which overlap, have slices of their own kind.
Json flight_trace(const std::vector<FlightGroup>& groups, FlightTime now);

}  // namespace lockstep
