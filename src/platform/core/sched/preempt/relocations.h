// Relocations: the head waits although enough devices are free, because they are scattered. Small
// runs are moved together, and the head starts.
//
// Example: four hosts of eight devices; a, b and c hold two devices each of h0, h1 and h2, and h3
// is full. The head needs sixteen on two hosts; eighteen are free. If a and b move to the host of
// c, h0 and h1 are empty: four devices move, for a head of sixteen.
//
// Each pod is considered alone: the hosts that need the fewest moved devices to fit a node of the
// head are freed. Their runs move to the tightest fit anywhere on the map except the head's hosts.
// The pod whose plan moves the fewest devices is chosen, the lowest among equals, if no more
// devices move than the head gets.
//
// Only runs of one host are moved that do not fill it, may still be moved, are not leaving and were
// not placed or moved at this moment.
//
// Cost: runs + for each pod its hosts x log hosts, and a search for hosts for each moved run.
#pragma once

#include <vector>

#include "platform/core/sched/capacity/allocated_runs.h"

namespace lockstep::sched {

struct Relocation {
  model::RunId run;
  int host = 0;  // destination
};

// True if the run may be moved at all. Preemptible runs are evicted instead.
bool is_movable(const AllocatedRun& allocated_run, Time now);
// The shape of the run, which it needs at its destination, too.
Shape shape_of(const AllocatedRun& allocated_run);

// In this order, the moves let the head fit; empty if no moves do. `capacity`: the capacity when
// preempted runs have left. `free_now`: the current capacity, for the destinations.
std::vector<Relocation> find_relocations(const FreeCapacity& capacity, const FreeCapacity& free_now,
                                         const Gang& head, AllocatedRuns& allocated_runs, Time now);

}  // namespace lockstep::sched
