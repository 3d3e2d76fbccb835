// The verdict: one sentence about who holds up a group.
#pragma once

#include <string>

#include "comm/flight/report/group.h"

namespace lockstep {

// In this order: calls that do not match; who has not entered what others are in, when it was last
// seen and in what; who waits for whom in the call that all are in; or that nothing is under way.
// now: from when ages count (viewed_at).
//   rank 3 is at #812 reduce_scatter(layers.7, 4.2 MiB); rank 1 has not entered #811
//   all_gather(layers.6, 4.2 MiB), last seen 31.0s ago in #810 barrier, waiting for rank 0 to send
//   data
std::string verdict_of(const FlightGroup& group, FlightTime now);

}  // namespace lockstep
