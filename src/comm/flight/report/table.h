// The newest collectives of a group as a table, with a column for each rank.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "comm/flight/diagnosis/group.h"
#include "text/display/table.h"

namespace lockstep::comm {

// A cell: the duration of the call, "waits 31.0s for 1", "inside 31.0s", "failed", "queued", "-"
// (not called) or "?" (no longer recorded). With more than 8 ranks, it shows those that are
// farthest behind.
Table flight_table(const FlightGroup& group, std::size_t newest, FlightTime now);

}  // namespace lockstep::comm
