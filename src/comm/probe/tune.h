// tune(): for sizes of one operation, how long each plan that fits takes, as
// predicted and as measured, and which is chosen.
#pragma once

#include <optional>
#include <span>
#include <vector>

#include "base/result.h"
#include "comm/algorithm/algorithm.h"
#include "comm/algorithm/call.h"
#include "comm/choice/predict.h"
#include "comm/cost/costs.h"
#include "comm/probe/measure.h"
#include "comm/start/join.h"

namespace lockstep {

// Those of which there is more than one plan.
inline constexpr Operation kTunedOperations[] = {Operation::all_reduce, Operation::reduce_scatter,
                                                 Operation::all_gather, Operation::broadcast,
                                                 Operation::reduce};

struct TunedPlan {
  CallPlan plan;
  Seconds predicted{};
  std::optional<Seconds> measured{};
  bool chosen = false;
};

struct TunedSize {
  std::size_t bytes = 0;
  std::vector<TunedPlan> plans;  // in the order of their predictions

  // The chosen plan's measured time over the least; nothing without
  // measurements.
  std::optional<double> ratio() const;
};

// Nothing is sent.
std::vector<TunedSize> predict_all(Operation operation, std::span<const std::size_t> sizes,
                                   const GroupShape& group, const Costs& costs);

// Called by all ranks that joined, on more than one host. Medians of rounds in
// which the plans take turns, of the slowest rank; the same on all. bytes: of a
// rank's share, multiples of 4.
Result<std::vector<TunedSize>> tune(const Joined& joined, Operation operation,
                                    std::span<const std::size_t> sizes,
                                    const ProbeProgress& progress);

}  // namespace lockstep
