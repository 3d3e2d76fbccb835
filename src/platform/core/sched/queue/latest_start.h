// Latest start: a bound for the start of a waiting run, whatever the scheduler decides meanwhile.
//
// The bound holds under these conditions. No run is submitted, released or resumed that is ahead of
// the run or has a longer time limit than the known ones. No limit is lengthened. No host is closed
// or lost. No run is interrupted (lost, paused, evicted), since it then returns to its place in the
// queue.
//
// There are two arguments; the earlier of their bounds counts. A run "ends" when its devices are
// free: at the latest its time limit and the policy's `overhead` after its start.
//
//   1. Hops. The first head starts at its reservation. Assume that at some time one of the runs
//      that may be ahead of r, or r itself, has just started or become the head. All runs that hold
//      devices then have ended one hop later: the longest limit of all waiting runs, and an
//      overhead (a second one if preemptible runs must leave first). Backfill delays no head. So
//      the head of that time has started by then, unless another run became the head. So r starts
//      after as many hops as there are runs ahead of it, plus the times that the head may change
//      without a start. That is: once for each run that may still get ahead of r (one of its
//      project is behind a higher priority, waits for another run or for a time, or may enter the
//      debug share); once for each debug run, whose end frees the debug share; and once for each
//      run under a limit of a project or user, whose end frees that limit.
//   2. One after the other. While r waits, some run holds devices, or r would start. So r starts at
//      the latest when all runs that hold devices have ended, and all waiting runs have run in
//      turn.
//
// There is no bound for a preemptible run, since others evict it, nor for a run under a limit.
// There is none for any run while a run exceeds its time limit and overhead.
//
// Example: two hosts of two devices. demo/1 has all of them for 20 s more. Then demo/2 needs one on
// each host for 40 s, and demo/3 both of one host. demo/2 starts within 20 s, demo/3 within 60 s.
#pragma once

#include <optional>
#include <span>
#include <vector>

#include "platform/core/sched/plan.h"
#include "platform/core/sched/policy.h"

namespace lockstep::sched {

// The runs and limits that the bound depends on.
struct LatestStartInput {
  std::vector<const PendingRun*> waiting{};  // in the order of `waiting` below
  std::vector<const PendingRun*>
      ineligible{};  // wait for something else first, then maybe for devices
  std::vector<const Allocation*> allocations{};  // of runs that hold devices
  Limits limits{};
};

// waiting: all waiting runs in queue order, after a decision at `now`.
std::vector<std::optional<Time>> latest_start_times(const SchedulingPolicy& policy,
                                                    std::span<const WaitingRun> waiting,
                                                    const LatestStartInput& input, Time now);

}  // namespace lockstep::sched
