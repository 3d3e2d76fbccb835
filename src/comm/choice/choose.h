// choose: the plan for a call of a group on several hosts. It is the plan that was measured to be
// the fastest (tuned.h), else the one that predict() finds cheapest. All ranks must choose the same
// plan. So a choice depends only on values that are equal on all of them: the call, the group, and
// the costs that the group has agreed on.
#pragma once

#include <cstddef>
#include <optional>

#include "comm/algorithm/algorithm.h"
#include "comm/algorithm/collective_call.h"
#include "comm/cost/costs.h"

namespace lockstep::comm {

// Returns the tuned plan; else the cheapest plan that fits. Each plan may cost up to a tenth more
// than predicted. A plan that is not hierarchical but could be costs 15 % more, because a
// hierarchical plan leaves more of the wire and of the processors to others. The tenth is the cost
// of one message in ten that arrives a round trip late, as happens when processors are busy; for a
// hierarchical plan it is at most a twentieth. So without tuning, the choice is never predicted to
// take over a tenth more than the cheapest, or 15 % if only the choice is hierarchical. bytes: of
// the call header, for one rank's share. piece_bytes: as for predict().
CallPlan choose(Operation operation, std::size_t bytes, const GroupShape& group, const Costs& costs,
                std::optional<std::size_t> piece_bytes = std::nullopt);

}  // namespace lockstep::comm
