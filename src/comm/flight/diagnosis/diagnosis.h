// The diagnosis: one sentence about the rank that stalls a group.
#pragma once

#include <string>

#include "comm/flight/diagnosis/group.h"

namespace lockstep::comm {

// Describes calls that do not match. Otherwise it names the rank that has not entered the call of
// the others, and when and in which call it was last seen, or the waits inside the call that all
// are in. It also lists waiting sends and receives. Empty when nothing is running. now: the
// reference of ages (viewed_at).
//   rank 3 is at #812 reduce_scatter(layers.7, 4.2 MiB); rank 1 has not entered #811
//   all_gather(layers.6, 4.2 MiB), last seen 31.0s ago in #810 barrier, waiting for rank 0 to send
//   data
//   rank 2 waits for the send of rank 1 with tag 5 (31.0s); rank 1 waits for no rank, last seen
//   31.2s ago after #7 barrier
std::string describe_stall(const FlightGroup& group, FlightTime now);
// The rank in that description that holds up the others; -1: none.
int find_late_rank(const FlightGroup& group);
// The first call in which the ranks differ; empty when all match.
std::string describe_mismatch(const FlightGroup& group);
// Describes the stall, or says that nothing is running. It also names ranks without a record.
std::string diagnose(const FlightGroup& group, FlightTime now);

}  // namespace lockstep::comm
