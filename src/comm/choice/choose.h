// choose: by which plan a call of a group on several hosts is carried out: the one that was
// measured to be the fastest (tuned.h), else the one that predict() finds cheapest. All ranks must
// choose alike, so a choice depends only on what is equal on all of them: the call, the group, and
// the costs that the group has agreed on.
#pragma once

#include <cstddef>
#include <optional>

#include "comm/algorithm/algorithm.h"
#include "comm/algorithm/call.h"
#include "comm/cost/costs.h"

namespace lockstep {

// What was tuned; else of those that fit the cheapest, when each costs up to a tenth more than
// predicted, and one that is not hierarchical 15 % where it could be, since that would leave more
// of the wire and of the processors to others. The tenth is what it costs that one message of ten
// comes a round trip late, as they do when processors are busy; of a hierarchical plan no more than
// a twentieth. So without a tuning the choice is never predicted to take over a tenth more than
// the cheapest, or 15 % if only the choice is hierarchical.
// bytes: the call header's, of a rank's share. piece_bytes: as for predict().
CallPlan choose(Operation operation, std::size_t bytes, const GroupShape& group, const Costs& costs,
                std::optional<std::size_t> piece_bytes = std::nullopt);

}  // namespace lockstep
