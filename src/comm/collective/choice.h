// Which algorithm a call uses. All ranks must choose alike, so the choice depends only on what is
// equal on all of them: the call and the group's size.
#pragma once

#include <cstddef>

#include "comm/collective/flat_all_reduce.h"

namespace lockstep {

enum class Algorithm { flat, ring };

// With more ranks, n - 1 messages from everybody to everybody cost more than the ring's steps.
inline constexpr int kFlatRanks = 16;

inline Algorithm choose_all_reduce(std::size_t bytes, int ranks) {
  return bytes <= kFlatBytes && ranks <= kFlatRanks ? Algorithm::flat : Algorithm::ring;
}

}  // namespace lockstep
