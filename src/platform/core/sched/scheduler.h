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
#include "platform/core/sched/run_queue.h"

namespace lockstep::sched {

class Scheduler : public RunQueue {
 public:
  // Keeps no reference to map and policy.
  Scheduler(const map::ClusterMap& map, const SchedulingPolicy& policy,
            MapGrowth growth = MapGrowth::none);
  ~Scheduler() override;
  Scheduler(Scheduler&&) noexcept;
  Scheduler& operator=(Scheduler&&) noexcept;

  void add_pending(const PendingRun& pending) override;
  void remove_pending(const model::RunId& run) override;
  void add_allocation(const Allocation& allocation) override;
  void set_expected_end(const model::RunId& run, Time expected_end) override;
  void remove_allocation(const model::RunId& run) override;
  void set_host(const std::string& host, model::HostState state, std::string why = {}) override;
  void set_limits(const Limits& limits) override;

  // Also where they start, and which are moved or evicted for them. An evicted run is removed: the
  // caller adds it again. If the policy does not preempt at once, a preempted run stays and is
  // marked as leaving until remove_allocation(); a moved run has devices reserved at its
  // destination.
  Plan schedule(Time now) override;
  std::optional<model::RunId> head() const override;
  std::vector<WaitingRun> waiting() const override;
  // Those of estimate_starts().
  std::vector<std::optional<Time>> start_estimates() const override;

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace lockstep::sched
