// tune(): for sizes of one operation, the predicted and measured time of each plan that fits, and
// the chosen plan.
#pragma once

#include <optional>
#include <span>
#include <vector>

#include "base/result.h"
#include "comm/algorithm/algorithm.h"
#include "comm/algorithm/collective_call.h"
#include "comm/choice/predict.h"
#include "comm/choice/tuned.h"
#include "comm/collective/start/join.h"
#include "comm/cost/costs.h"
#include "comm/probe/measure.h"

namespace lockstep::comm {

// The operations with more than one plan.
inline constexpr Operation kTunedOperations[] = {Operation::all_reduce, Operation::reduce_scatter,
                                                 Operation::all_gather, Operation::broadcast,
                                                 Operation::reduce};

struct TunedPlan {
  CallPlan plan;
  Seconds predicted{};
  std::optional<Seconds> measured{};
  double wins = 0;      // the share of the rounds in which it was faster than predicted_best
  bool chosen = false;  // the current choice: as tuned before, else as predicted
  bool predicted_best = false;  // the choice without a tuning
};

struct TunedSize {
  std::size_t bytes = 0;
  std::vector<TunedPlan> plans;  // in the order of their predictions

  // The chosen plan's measured time divided by the minimum; nullopt without measurements.
  std::optional<double> ratio() const;
};

// The sizes of a complete tuning: from 8 bytes to 64 MiB in total.
std::vector<std::size_t> tuned_sizes(Operation operation, int ranks);

// The plans for calls of these sizes according to the measurements. It is the plan with the
// cheapest prediction, unless another takes a twentieth less, and is faster in three rounds of
// four: so noise decides nothing. Ascending.
std::vector<TunedCall> select_tuned_calls(std::span<const TunedSize> sizes);

// Sends nothing.
std::vector<TunedSize> predict_all(Operation operation, std::span<const std::size_t> sizes,
                                   const GroupShape& group, const Costs& costs);

// All ranks that joined call it, on more than one host, once for each operation. The same processes
// measure all plans, in rounds in which the plans take turns. The time is the median of the better
// half of the rounds, of the slowest rank; the same on all. Small data is sent many times in a
// turn, if no call can end before all have begun it. bytes: of one rank's share, multiples of 4.
Result<std::vector<TunedSize>> tune(const JoinedWorld& joined, Operation operation,
                                    std::span<const std::size_t> sizes,
                                    const ProbeProgress& progress);

}  // namespace lockstep::comm
