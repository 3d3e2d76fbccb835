// What `lockstep tune` found out by whole calls: of an operation in groups of one shape, up to
// which size which plan was the fastest. It goes before any prediction: a model knows nothing of
// ranks that share a processor, of a switch that drops, of a wire that somebody else uses too.
#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <vector>

#include "base/result.h"
#include "comm/algorithm/algorithm.h"
#include "comm/algorithm/call.h"
#include "comm/cost/costs.h"

namespace lockstep {

// Nothing, if no such call was measured in a group of so many ranks on so many hosts, or if the
// plan that was the fastest does not fit this call. bytes: the call header's, of a rank's share.
std::optional<CallPlan> tuned_plan(Operation operation, std::size_t bytes, const GroupShape& group,
                                   std::span<const TunedRange> tuned);

// Refuses plans that this Lockstep does not have, with those that it has. Operations that it does
// not have are never called.
Result<void> check_tuned(std::span<const TunedRange> tuned);

// Which plan calls of so many bytes are to be carried out by.
struct TunedCall {
  std::size_t bytes = 0;
  CallPlan plan;
};
// calls: of ascending sizes. A range ends in the middle, as factors go, between two sizes with
// different plans, and the last one at the largest size.
std::vector<TunedRange> tuned_ranges(Operation operation, const GroupShape& group,
                                     std::span<const TunedCall> calls);

// Those that were known before, but for the operations in groups of the shape that are in `found`.
std::vector<TunedRange> merge_tuned(std::span<const TunedRange> before,
                                    std::span<const TunedRange> found);

}  // namespace lockstep
