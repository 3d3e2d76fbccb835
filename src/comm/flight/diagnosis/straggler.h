// Stragglers: ranks that enter a group's collectives later than the others, which wait for them.
//
// Every record of a late entry looks similar: long for all ranks but the late one. So the ranks'
// records are compared row by row, for collectives that no rank can end before all have entered
// (all-reduce, reduce-scatter, all-gather, all-to-all, barrier).
//
// Clocks. Hosts' clocks differ by milliseconds, which is also the order of the delays. But once all
// have entered, all end within the time of the transfer. So in the fastest rows the ends are almost
// simultaneous, and the median of their differences is the offset of the clocks. Ranks of one host
// have one clock.
//
// A rank's lag is its entry minus the median of the others'. Lag counts from when the rank's engine
// starts the call, not from when the program calls, so a call that waits behind another one of the
// same rank is not late.
//
// Limits: where most ranks are late, they are the norm and no rank is named. slow_link.h handles
// links.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "comm/flight/diagnosis/group.h"

namespace lockstep::comm {

// The result for a rank.
struct Straggler {
  int rank = 0;
  std::string host;
  std::string group;
  double last_share = 0;     // the share of the collectives that it entered last
  Nanoseconds median_lag{};  // relative to the others, median
  double cost_share = 0;     // of the time: the wait of the others for it
  std::size_t collectives = 0;
};

struct StragglerThresholds {
  std::size_t collectives_max = 512;  // the collectives to examine
  std::size_t collectives_min = 32;   // the minimum for any result
  Nanoseconds lag_min = std::chrono::milliseconds(1);
  double cost_share_min = 0.05;
  // The factor by which it is last more often than by chance; three quarters of the collectives
  // always suffice.
  double last_ratio_min = 0;
};

// The most expensive first. Empty for a group with a missing record, or whose ends are not exact,
// because then the clocks cannot be aligned.
std::vector<Straggler> find_stragglers(const FlightGroup& group,
                                       const StragglerThresholds& bounds = {});
// For all groups: the most expensive result of each rank.
std::vector<Straggler> find_stragglers(const std::vector<FlightGroup>& groups,
                                       const StragglerThresholds& bounds = {});

// "rank 5 on host c entered 80 % of the last 512 collectives of world last, 31ms behind the others
// in the median: they waited 12 % of the time for it"
std::string text(const Straggler& straggler);

}  // namespace lockstep::comm
