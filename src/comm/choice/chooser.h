// Chooser: the plans of one group's calls: one that is forced, wherever it fits, else choose()'s,
// which it remembers, as programs make the same calls over and over. For one thread at a time.
#pragma once

#include <array>
#include <cstddef>
#include <optional>

#include "comm/algorithm/algorithm.h"
#include "comm/algorithm/call.h"
#include "comm/cost/costs.h"

namespace lockstep {

class Chooser {
 public:
  // All of it the same on all ranks. piece_bytes: as for choose().
  Chooser(const GroupShape& group, const std::optional<CallPlan>& forced, const Costs& costs,
          std::optional<std::size_t> piece_bytes = std::nullopt)
      : group_(group), forced_(forced), costs_(costs), piece_bytes_(piece_bytes) {}

  // bytes: the call header's, of a rank's share.
  CallPlan plan_for(Operation operation, std::size_t bytes);

 private:
  struct Known {
    Operation operation;
    std::size_t bytes;
    CallPlan plan;
  };

  const GroupShape group_;
  const std::optional<CallPlan> forced_;
  const Costs costs_;
  const std::optional<std::size_t> piece_bytes_;
  std::array<std::optional<Known>, 64> known_;  // by operation and bytes; the last one wins
};

}  // namespace lockstep
