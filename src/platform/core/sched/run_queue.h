// RunQueue: decides which waiting runs start. A Scheduler (scheduler.h) chooses their hosts, too.
// An EngineQueue (queue/engine_queue.h) leaves that to an engine.
//
// Update everything before schedule(): first the ended runs, then the new ones. The order of the
// calls does not affect the decision.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "platform/core/sched/plan.h"

namespace lockstep::sched {

class RunQueue {
 public:
  virtual ~RunQueue() = default;

  // Adds a run to the queue; it must neither wait nor hold devices. A run that the map can never
  // hold is allowed: it blocks no other run, and waiting() gives the reason.
  virtual void add_pending(const PendingRun& pending) = 0;
  // Removes a waiting run that has not started (its user stopped it).
  virtual void remove_pending(const model::RunId& run) = 0;
  // Adds a run with devices that schedule() did not place (after a restart). It must not wait.
  virtual void add_allocation(const Allocation& allocation) = 0;
  // Changes the expected end of a run.
  virtual void set_expected_end(const model::RunId& run, Time expected_end) = 0;
  // Frees all devices of the run, and those reserved for it at its destination.
  virtual void remove_allocation(const model::RunId& run) = 0;
  // Sets whether a host takes runs, and why: one clause for users. Names that the map lacks are
  // ignored.
  virtual void set_host(const std::string& host, model::HostState state, std::string why) = 0;
  // Replaces all limits. A run beyond a new limit keeps its devices.
  virtual void set_limits(const Limits& limits) = 0;

  // Decides which runs start (Plan::waiting stays empty). `now` must not decrease. A placed run
  // holds its devices from then on until remove_allocation().
  virtual Plan schedule(Time now) = 0;
  // The first waiting run in queue order that can be placed and exceeds no limit.
  virtual std::optional<model::RunId> head() const = 0;
  // Why each waiting run waits, in queue order; call it after schedule().
  virtual std::vector<WaitingRun> waiting() const = 0;
  // Estimated starts, in the order of waiting().
  virtual std::vector<std::optional<Time>> start_estimates() const = 0;
};

}  // namespace lockstep::sched
