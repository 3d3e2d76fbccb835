// choose: by which plan a call of a group on several hosts is carried out: the one that predict()
// finds cheapest. All ranks must choose alike, so a choice depends only on what is equal on all of
// them: the call, the group, and the costs that the group has agreed on.
#pragma once

#include <cstddef>

#include "comm/algorithm/algorithm.h"
#include "comm/algorithm/call.h"
#include "comm/cost/costs.h"

namespace lockstep {

// One that fits, and is within a tenth of the cheapest: a hierarchical one if there is one, as it
// leaves most of the wire to others; of these the cheapest if each message costs a round trip more
// than predicted, since busy processors and ranks that come late cost something at each of them.
// bytes: the call header's, of a rank's share.
CallPlan choose(Operation operation, std::size_t bytes, const GroupShape& group,
                const Costs& costs);

}  // namespace lockstep
