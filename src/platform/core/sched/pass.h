// The pass from nothing: which waiting runs start now and where, and for each of the others why it
// waits. A pure function over the map, who waits and who holds what; integers and the map's order
// decide, nothing else. What it decides by is the policy; docs/design/scheduler.md has the rules.
//
// Whoever asks again and again keeps a Scheduler, whose answers are the same.
#pragma once

#include <span>

#include "base/result.h"
#include "map/map.h"
#include "platform/core/sched/plan.h"
#include "platform/core/sched/policy.h"

namespace lockstep {

// In any order; each run once, in the queue or among those that hold devices.
Plan pass(const Map& map, const SchedulingPolicy& policy, std::span<const Want> queue,
          std::span<const Holding> held, Time now, const Conditions& conditions = {});

// Whether the run could start if nothing else ran; the error says what the map holds.
Result<void> check_fits(const Map& map, const Want& want);

}  // namespace lockstep
