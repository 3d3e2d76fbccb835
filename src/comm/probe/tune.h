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
#include "comm/choice/tuned.h"
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
  double wins = 0;              // in which share of the rounds it was faster than predicted_best
  bool chosen = false;          // what Lockstep takes: as tuned before, else as predicted
  bool predicted_best = false;  // what it would take without a tuning
};

struct TunedSize {
  std::size_t bytes = 0;
  std::vector<TunedPlan> plans;  // in the order of their predictions

  // The chosen plan's measured time over the least; nothing without
  // measurements.
  std::optional<double> ratio() const;
};

// What a whole tuning measures: from 8 bytes to 64 MiB in all.
std::vector<std::size_t> tuned_sizes(Operation operation, int ranks);

// By which plan calls of these sizes should be carried out by what was measured:
// by the one that is predicted to be the cheapest, unless another takes a
// twentieth less, and less in three rounds of four: so that noise decides nothing.
// Ascending.
std::vector<TunedCall> worthwhile_calls(std::span<const TunedSize> sizes);

// Nothing is sent.
std::vector<TunedSize> predict_all(Operation operation, std::span<const std::size_t> sizes,
                                   const GroupShape& group, const Costs& costs);

// Called by all ranks that joined, on more than one host, once for each
// operation. All plans are measured by the same processes, in rounds in which
// they take turns: of the better half of rounds the median, of the slowest rank;
// the same on all. Little data is sent many times in a turn, where no call can
// end before all have begun it. bytes: of a rank's share, multiples of 4.
Result<std::vector<TunedSize>> tune(const Joined& joined, Operation operation,
                                    std::span<const std::size_t> sizes,
                                    const ProbeProgress& progress);

}  // namespace lockstep
