// Scheduler: the scheduling pass with state that it keeps between decisions: the queue order, free
// devices by host and pod, and the allocations by expected end. So a decision after one event costs
// far less than one without kept state (pass.h), and is the same.
//
//   Scheduler scheduler(map, policies::kEasy);
//   scheduler.add_pending({.run = {"demo", 1}, .nodes = 2, .devices = 8, .time_limit = hour});
//   for (const Placement& start : scheduler.schedule(now).placements) ...  // demo/1 has devices
//   scheduler.remove_allocation({"demo", 1});                              // it has ended
//
// The expected end of a placed run is its time limit after the `now` of schedule().
//
// With EngineHosts some hosts are an engine's to choose (docs/design/slurm-placement.md). A run
// that cannot start at once on the other hosts starts there, if it may start at all: it is no head,
// and no run is preempted for it.
//
// Update everything before schedule(): first the ended runs, then the new ones. The order of the
// calls does not affect the decision.
//
// Cost: adding or removing a run is logarithmic in the number of runs, except for moving 48 bytes
// for each run behind it in the queue. schedule(): a few nanoseconds for each waiting run while one
// of the waiting shapes fits somewhere, and tens of microseconds to find when the head can start.
#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "map/map.h"
#include "platform/core/sched/plan.h"
#include "platform/core/sched/policy.h"

namespace lockstep::sched {

class Scheduler {
 public:
  // Keeps no reference to its arguments. engine: none if the scheduler places all runs.
  Scheduler(const map::ClusterMap& map, const SchedulingPolicy& policy,
            MapGrowth growth = MapGrowth::none, const std::optional<EngineHosts>& engine = {});
  ~Scheduler();
  Scheduler(Scheduler&&) noexcept;
  Scheduler& operator=(Scheduler&&) noexcept;

  // Adds a run to the queue; it must neither wait nor hold devices. A run that no hosts can ever
  // hold is allowed: it blocks no other run, and waiting() gives the reason.
  void add_pending(const PendingRun& pending);
  // Removes a waiting run that has not started (its user stopped it).
  void remove_pending(const model::RunId& run);
  // Adds a run with devices that schedule() did not place (after a restart). It must not wait.
  void add_allocation(const Allocation& allocation);
  // Changes the expected end of a run.
  void set_expected_end(const model::RunId& run, Time expected_end);
  // Frees all devices of the run, and those reserved for it at its destination.
  void remove_allocation(const model::RunId& run);
  // Sets whether a host takes runs, and why: one clause for users. Names that the maps lack are
  // ignored.
  void set_host(const std::string& host, model::HostState state, std::string why = {});
  // Replaces all limits. A run beyond a new limit keeps its devices.
  void set_limits(const Limits& limits);

  // Decides which runs start and where, and which are moved or evicted for them (Plan::waiting
  // stays empty). `now` must not decrease. A placed run holds its devices from then on until
  // remove_allocation(). An evicted run is removed: the caller adds it again. If the policy does
  // not preempt at once, a preempted run stays and is marked as leaving until remove_allocation();
  // a moved run has devices reserved at its destination.
  Plan schedule(Time now);
  // The first waiting run in queue order that can be placed and exceeds no limit.
  std::optional<model::RunId> head() const;
  // Why each waiting run waits, in queue order; call it after schedule().
  std::vector<WaitingRun> waiting() const;
  // Estimated starts on the hosts of the map, in the order of waiting(): estimate_starts().
  std::vector<std::optional<Time>> start_estimates() const;

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace lockstep::sched
