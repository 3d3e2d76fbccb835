// One scheduling pass without kept state: which waiting runs start now and where, and why each of
// the others waits. A pure function of the map, the pending runs and the allocations. Only integers
// and the map's order decide. The policy selects the rules; docs/design/scheduler.md describes
// them.
//
// For repeated passes use a Scheduler, which returns the same results.
#pragma once

#include <optional>
#include <span>

#include "base/result.h"
#include "map/map.h"
#include "platform/core/sched/capacity/host_table.h"
#include "platform/core/sched/plan.h"
#include "platform/core/sched/policy.h"

namespace lockstep::sched {

// In any order; each run once, in the queue or in `held`.
Plan schedule_once(const map::ClusterMap& map, const SchedulingPolicy& policy,
                   std::span<const PendingRun> queue, std::span<const Allocation> held, Time now,
                   const OperatorSettings& settings = {}, MapGrowth growth = MapGrowth::none,
                   const std::optional<EngineHosts>& engine = {});

// Checks that the run could start on an empty map; the error describes what the map holds.
Result<void> check_fits(const map::ClusterMap& map, const PendingRun& pending);
// The same on an empty map of both kinds of hosts: engine_host_table() of those among which an
// engine chooses, and the others.
Result<void> check_fits(const HostTable& table, const HostTable& of_engine,
                        const PendingRun& pending);

}  // namespace lockstep::sched
