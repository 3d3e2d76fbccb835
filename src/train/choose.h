// Choosing a policy: the smallest group with which training fits into a device's memory. Smaller
// groups send less and to nearer ranks, so the smallest that fits is the fastest (Zhang et al.,
// "MiCS", VLDB 2022). Pure.
#pragma once

#include <string>
#include <vector>

#include "base/result.h"
#include "base/units.h"
#include "train/layout.h"
#include "train/places.h"
#include "train/policy.h"

namespace lockstep {

// What a rank holds, without activations.
struct Need {
  Bytes parameters;  // its shards, and all of what is whole
  Bytes gradients;   // the same of them
  Bytes optimizer;   // AdamW's two moments, and masters of 16-bit parameters
  Bytes under_way;   // units that are gathered, and whole gradients until they are reduced
  Bytes total() const { return parameters + gradients + optimizer + under_way; }
};

Need need_of(const Layout& layout, const Policy& policy);

struct Choice {
  Policy policy;
  std::string why;  // in one line
};

// Of a device's memory so much is left for activations and all else.
inline constexpr int kActivationsShare = 4;  // a quarter

// `asked` with groups of so many ranks for all three.
Policy in_groups(const Policy& asked, int size);

// asked.automatic; memory: of the device with the least. blocks: whether parameters can be divided
// at all. exhausted, with what comes nearest, if nothing fits.
Result<Choice> choose_policy(const Policy& asked, const std::vector<ParameterSpec>& parameters,
                             const Places& places, Bytes memory, bool blocks);

}  // namespace lockstep
