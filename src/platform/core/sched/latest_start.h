// Latest start: until when a run that waits has started, whatever the pass does meanwhile.
//
// The bound holds while nothing is submitted, released or resumed that stands before the run or
// runs longer than those that are known; no limit is lengthened; no host is closed or lost; and no
// run is interrupted (lost, paused, evicted), since it then stands again where it stood.
//
// Two arguments; the earlier of their bounds counts. A run "ends" when its devices are free: at the
// latest its limit and the policy's `overhead` after its start.
//
//   1. Hops. The first head starts by its reservation. Say that at some moment one of the runs that
//      may stand before r, or r itself, has just started or become the head. All that hold devices
//      then have ended a hop later: the longest limit of all that wait, and an overhead (another
//      if preemptible runs must leave first). Backfill puts no head off, so the head of that moment
//      has started by then, unless another became the head. So r starts after as many hops as there
//      are runs before it, and as often as the head may change without a start: once for each run
//      that may still come to stand before r (one of its project stands behind a higher priority,
//      has to wait for another run or for a moment, or may enter the debug lane), once for each
//      debug run, whose end makes room in the lane, and once for each run under a limit of a
//      project or user, whose end makes room there.
//   2. One after the other. While r waits some run holds devices, or r would start. So r starts at
//      the latest when all that hold devices have ended, and all that wait have run in turn.
//
// None is given for a run that is preemptible, since others evict it, or under a limit, and for any
// while a run outlives its limit and overhead.
//
// Example: two hosts of two devices. demo/1 has all of them for 20 s more. Then demo/2 wants one on
// each host for 40 s, and demo/3 both of one host. demo/2 starts within 20 s, demo/3 within 60 s.
#pragma once

#include <optional>
#include <span>
#include <vector>

#include "platform/core/sched/plan.h"
#include "platform/core/sched/policy.h"

namespace lockstep {

// What may have a part in it.
struct OpenRuns {
  std::vector<const Want*> waiting{};     // as in `told` below
  std::vector<const Want*> later{};       // wait for something else first, then maybe for devices
  std::vector<const Holding*> holding{};  // devices
  Limits limits{};
};

// told: all that wait, in their order, after a decision at `now`.
std::vector<std::optional<Time>> latest_starts(const SchedulingPolicy& policy,
                                               std::span<const WaitingRun> told,
                                               const OpenRuns& open, Time now);

}  // namespace lockstep
