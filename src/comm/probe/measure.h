// How fast ranks reach one another and add: what `lockstep probe` measures.
#pragma once

#include <functional>
#include <string_view>

#include "base/result.h"
#include "comm/collective/communicator.h"
#include "comm/cost/costs.h"

namespace lockstep {

// Called often, with what is being measured.
using ProbeProgress = std::function<void(std::string_view)>;

// What messages between the two ranks of this group cost, by sending one each
// way at the same time: sizes from 8 bytes to 4 MiB, medians, a line through
// them. Both ranks call it; the result is rank 0's. On fast networks half a
// second, at most about two seconds on 1 Gbit/s.
Result<LevelCost> measure_messages(Communicator& pair, const ProbeProgress& progress);

// What small messages cost among three or four ranks at once: lone ones in pairs (latency) as the
// rounds of recursive doubling, and what each end can do nothing else for when a rank has messages
// to and from all others at the same time (overhead): series to one of them (measure_messages) come
// cheaper, as a stream does. By all-reduces of 8 bytes, of either plan in turns, so that what makes
// one dearer on this network counts beside what it does to the other. All ranks call it, of two
// groups whose plans are "flat" and "recursive_doubling"; the result is the slowest rank's, on all.
// per_byte is none of it, and 0.
Result<LevelCost> measure_among(Communicator& flat, Communicator& doubling,
                                const ProbeProgress& progress);

// Seconds a byte that is reduced (float32, sum of two), while all ranks of the
// group do. The result is the slowest rank's, on all.
Result<double> measure_reduction(Communicator& group);

}  // namespace lockstep
