// The results of `lockstep tune`, which times whole calls: for an operation and a group shape, the
// fastest plan up to each size. They have priority over predictions. A model does not know about
// ranks that share a processor, a switch that drops frames, or a wire with other traffic.
#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <vector>

#include "base/result.h"
#include "comm/algorithm/algorithm.h"
#include "comm/algorithm/collective_call.h"
#include "comm/cost/costs.h"

namespace lockstep::comm {

// Returns nullopt if no such call was measured in a group of this shape, or if the fastest plan
// does not fit this call. bytes: of the call header, for one rank's share.
std::optional<CallPlan> tuned_plan(Operation operation, std::size_t bytes, const GroupShape& group,
                                   std::span<const map::TunedRange> tuned);

// Rejects plans that this version does not have; the error lists the valid ones. Unknown operations
// are accepted, because they are never called.
Result<void> check_tuned(std::span<const map::TunedRange> tuned);

// The plan for calls of this size.
struct TunedCall {
  std::size_t bytes = 0;
  CallPlan plan;
};
// calls: by ascending size. A range ends at the geometric mean of two sizes with different plans.
// The last range ends at the largest size.
std::vector<map::TunedRange> tuned_ranges(Operation operation, const GroupShape& group,
                                          std::span<const TunedCall> calls);

// Returns `before` without the operations and group shapes that are in `found`, plus `found`.
std::vector<map::TunedRange> merge_tuned(std::span<const map::TunedRange> before,
                                         std::span<const map::TunedRange> found);

}  // namespace lockstep::comm
