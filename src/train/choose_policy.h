// Chooses a policy: the smallest group with which training fits into a device's memory. Smaller
// groups send less and to nearer ranks, so the smallest that fits is the fastest (Zhang et al.,
// "MiCS", VLDB 2022). Pure.
#pragma once

#include <string>
#include <vector>

#include "base/result.h"
#include "base/units.h"
#include "train/engine/layout.h"
#include "train/group/rank_placement.h"
#include "train/policy.h"

namespace lockstep::train {

// The memory of a rank, without activations.
struct MemoryEstimate {
  Bytes parameters;  // its shards, and all undivided ones
  Bytes gradients;   // for the same parameters
  // AdamW's two moments, and masters of 16-bit parameters; nothing if they are in main memory
  Bytes optimizer;
  Bytes in_flight;  // units that are gathered, and whole gradients until they are reduced
  Bytes total() const { return parameters + gradients + optimizer + in_flight; }
};

MemoryEstimate estimate_memory(const Layout& layout, const Policy& policy);

struct PolicyChoice {
  Policy policy;
  std::string reason;  // in one line
};

// The share of a device's memory that is left for activations and all else.
inline constexpr int kActivationsShare = 4;  // a quarter

// `asked` with groups of this many ranks for parameters, gradients and optimizer state.
Policy with_group_size(const Policy& asked, int size);

// asked.automatic must hold. memory: of the device with the least. blocks: true if parameters can
// be divided at all. exhausted, naming the nearest policy, if none fits.
Result<PolicyChoice> choose_policy(const Policy& asked,
                                   const std::vector<ParameterSpec>& parameters,
                                   const RankPlacement& placement, Bytes memory, bool blocks);

}  // namespace lockstep::train
