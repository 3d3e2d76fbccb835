// The verdict: one sentence about the rank that holds up a group.
#pragma once

#include <string>

#include "comm/flight/verdict/group.h"

namespace lockstep {

// Calls that do not match; else who has not entered what others are in, when it was last seen and
// in what, or who waits for whom in the call that all are in; and which sends and receives wait.
// Empty when nothing is under way. now: from when ages count (viewed_at).
//   rank 3 is at #812 reduce_scatter(layers.7, 4.2 MiB); rank 1 has not entered #811
//   all_gather(layers.6, 4.2 MiB), last seen 31.0s ago in #810 barrier, waiting for rank 0 to send
//   data
//   rank 2 waits for the send of rank 1 with tag 5 (31.0s); rank 1 waits for no rank, last seen
//   31.2s ago after #7 barrier
std::string holdup_of(const FlightGroup& group, FlightTime now);
// Of those that it tells of, the rank that holds up the others; -1: none.
int late_rank_of(const FlightGroup& group);
// The first call in which the ranks differ; empty when all match.
std::string mismatch_of(const FlightGroup& group);
// The holdup, or that nothing is under way; and of whom there is no record.
std::string verdict_of(const FlightGroup& group, FlightTime now);

}  // namespace lockstep
