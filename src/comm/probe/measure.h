// The speed of messages between ranks and of reductions, as `lockstep probe` measures it.
#pragma once

#include <functional>
#include <string_view>

#include "base/result.h"
#include "comm/collective/communicator.h"
#include "comm/cost/costs.h"

namespace lockstep::comm {

// Called often, with a description of the current measurement.
using ProbeProgress = std::function<void(std::string_view)>;

// The cost of messages between the two ranks of this group. It sends one each way at the same time,
// with sizes from 8 bytes to 4 MiB, and fits a line through the medians. Both ranks call it; the
// result is rank 0's. It takes half a second on fast networks, and at most about two seconds on 1
// Gbit/s.
Result<LevelCost> measure_messages(Communicator& pair, const ProbeProgress& progress);

// The cost of small messages among three or four ranks at once. latency: single messages in pairs,
// as in the rounds of recursive doubling. overhead: the time in which each end can do nothing else
// when a rank has messages to and from all others at the same time. A series of messages to one of
// them (measure_messages) is cheaper, because it is a stream. It measures all-reduces of 8 bytes,
// with both plans in turns, so that an influence of the network on one of them is compared with the
// other. All ranks call it, with two groups whose plans are "flat" and "recursive_doubling"; the
// result is the slowest rank's, on all. per_byte is not measured, and 0.
Result<LevelCost> measure_concurrent_messages(Communicator& flat, Communicator& doubling,
                                              const ProbeProgress& progress);

// Seconds for each reduced byte (float32, sum of two), while all ranks of the group reduce. The
// result is the slowest rank's, on all.
Result<double> measure_reduction(Communicator& group);

}  // namespace lockstep::comm
