// Stragglers: ranks that enter a group's collectives later than the others do, who wait for them.
//
// Every record of a late entry looks alike: long for all but the rank that was late. So the ranks'
// records are set side by side, row by row, of collectives that nobody can end before all have
// entered (all-reduce, reduce-scatter, all-gather, all-to-all, barrier).
//
// Clocks. Hosts' clocks differ by milliseconds, which is what is looked for. But once all have
// entered, all end within the time of the transfer; so in the fastest rows the ends are as good as
// simultaneous, and how they differ in the median is how the clocks do. Ranks of one host have one
// clock.
//
// A rank's lag is its entry less the median of the others'. Lag counts from when the rank's engine
// takes the call up, not from when the program calls, so that a call which waits behind another one
// of the same rank is not late.
//
// Limits: where most ranks are late, they are the norm and nobody is named. Of links slow_link.h
// tells.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "comm/flight/verdict/group.h"

namespace lockstep {

// Found of a rank.
struct Straggler {
  int rank = 0;
  std::string host;
  std::string group;
  double last = 0;       // the share of the collectives that it entered last
  Nanoseconds behind{};  // the others, in the median
  double cost = 0;       // of the time: what the others waited for it
  std::size_t collectives = 0;
};

struct StragglerBounds {
  std::size_t newest = 512;  // collectives to look at
  std::size_t least = 32;    // that it takes to say anything
  Nanoseconds behind = std::chrono::milliseconds(1);
  double cost = 0.05;
  // Times as often last as by chance; three quarters of the collectives are always enough.
  double last = 0;
};

// The costliest first. Nothing of a group of which a record is missing.
std::vector<Straggler> stragglers_of(const FlightGroup& group, const StragglerBounds& bounds = {});
// Of all groups, of each rank the costliest finding.
std::vector<Straggler> stragglers_of(const std::vector<FlightGroup>& groups,
                                     const StragglerBounds& bounds = {});

// "rank 5 on host c entered 80 % of the last 512 collectives of world last, 31ms behind the others
// in the median: they waited 12 % of the time for it"
std::string words_of(const Straggler& straggler);

}  // namespace lockstep
