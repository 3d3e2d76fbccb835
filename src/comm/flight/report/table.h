// The newest collectives of a group as a table, a column a rank.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "comm/flight/verdict/group.h"
#include "text/table.h"

namespace lockstep {

// A cell: how long the call took, "waits 31.0s for 1", "inside 31.0s", "failed", "queued", "-" (not
// called) or "?" (no longer recorded). Of more than 8 ranks, those that are farthest behind.
Table flight_table(const FlightGroup& group, std::size_t newest, FlightTime now);

}  // namespace lockstep
