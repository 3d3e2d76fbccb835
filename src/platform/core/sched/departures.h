// Departures: who leaves devices so that another run fits, or because their host is drained.
//
// For a run that finds no room, in this order: preemptible runs are evicted, as was agreed; a run
// in the lane has small ones paused, since it is short and moves are few; for others small ones are
// moved, and for one that needs whole hosts those are paused who stand behind it.
//
// Nobody is asked to leave for a run that fits once those have gone who were asked before.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "platform/core/sched/evictions.h"
#include "platform/core/sched/moves.h"

namespace lockstep {

struct Departures {
  std::vector<RunId> evictions;
  std::vector<Relocation> moves;
  bool empty() const { return evictions.empty() && moves.empty(); }
};

// Who asks: it can be placed, and does not fit now.
struct Claim {
  Gang gang;
  bool in_lane = false;
  std::int64_t key = 0;  // of its place in the order
  std::string_view project{};
  int priority = 0;  // within it
};

Departures departures_for(const Claim& claim, const Floor& floor, Holders& holders,
                          const SchedulingPolicy& policy, Time now);

// Of the runs on drained hosts those who may be moved and have room elsewhere.
std::vector<Relocation> departures_from_drained(const Floor& floor, Holders& holders,
                                                const SchedulingPolicy& policy, Time now);

}  // namespace lockstep
