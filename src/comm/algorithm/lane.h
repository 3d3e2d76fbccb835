// lane_of: the ranks that have the same place on all hosts, which exchange between hosts what is
// theirs.
#pragma once

#include <cstddef>
#include <vector>

#include "comm/algorithm/exchange.h"

namespace lockstep {

// In the order of the hosts. place: less than the ranks of any host.
inline std::vector<int> lane_of(const Exchange& exchange, std::size_t place) {
  std::vector<int> lane;
  for (const auto& ranks : exchange.hosts()) lane.push_back(ranks[place]);
  return lane;
}

}  // namespace lockstep
