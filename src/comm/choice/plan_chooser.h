// PlanChooser: the plans of one group's calls. It uses the forced plan wherever that fits, else the
// result of choose(), which it caches, because programs repeat the same calls. For one thread at a
// time.
#pragma once

#include <array>
#include <cstddef>
#include <optional>

#include "comm/algorithm/algorithm.h"
#include "comm/algorithm/collective_call.h"
#include "comm/cost/costs.h"

namespace lockstep::comm {

class PlanChooser {
 public:
  // All arguments are the same on all ranks. piece_bytes: as for choose().
  PlanChooser(const GroupShape& group, const std::optional<CallPlan>& forced, const Costs& costs,
              std::optional<std::size_t> piece_bytes = std::nullopt)
      : group_(group), forced_(forced), costs_(costs), piece_bytes_(piece_bytes) {}

  // bytes: the call header's, of a rank's share.
  CallPlan plan_for(Operation operation, std::size_t bytes);

 private:
  struct CachedPlan {
    Operation operation;
    std::size_t bytes;
    CallPlan plan;
  };

  const GroupShape group_;
  const std::optional<CallPlan> forced_;
  const Costs costs_;
  const std::optional<std::size_t> piece_bytes_;
  std::array<std::optional<CachedPlan>, 64> cache_;  // by operation and bytes; the last one wins
};

}  // namespace lockstep::comm
