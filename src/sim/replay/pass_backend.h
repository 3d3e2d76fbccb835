// PassBackend: the platform's scheduling pass decides alone, without controller, store or agents.
#pragma once

#include <span>
#include <vector>

#include "map/map.h"
#include "platform/core/sched/scheduler.h"
#include "sim/replay/replay.h"

namespace lockstep::sim {

// A cluster of equal hosts; a gang stays inside a pod.
struct ReplayCluster {
  int hosts = 64;
  int devices = 8;  // on each host
  int pod = 16;     // hosts in each pod; the last has the remaining ones
  int all_devices() const { return hosts * devices; }
};

map::ClusterMap map_of(const ReplayCluster& cluster);

// As many devices as the job asks for: on one host if they fit there, else on whole hosts, and the
// remainder on one more. In the order of the trace, with arrivals and limits as the pass sees them.
std::vector<sched::PendingRun> pending_runs_of(const JobTrace& trace,
                                               std::span<const Seconds> limits, int on_host);

// A job that the empty cluster could not hold, with its file and line.
Result<void> check_all_fit(const JobTrace& trace, std::span<const sched::PendingRun> pending_runs,
                           const map::ClusterMap& map);

class PassBackend : public ReplayBackend {
 public:
  PassBackend(const map::ClusterMap& map, const sched::SchedulingPolicy& policy,
              std::vector<sched::PendingRun> pending_runs)
      : scheduler_(map, policy),
        policy_(policy),
        pending_runs_(std::move(pending_runs)),
        since_(pending_runs_.size()) {}

  Result<Decision> decide(Seconds now, std::span<const JobId> ended,
                          std::span<const JobId> arrived) override;

 private:
  sched::PendingRun& pending_run(const model::RunId& run);
  Time& since(const model::RunId& run);
  bool apply_plan(const sched::Plan& plan, Time now, Decision& decision);
  void interrupt(const model::RunId& run, Time now);

  sched::Scheduler scheduler_;
  const sched::SchedulingPolicy policy_;
  std::vector<sched::PendingRun>
      pending_runs_;         // current state, with the remaining limits and moves
  std::vector<Time> since_;  // when the current executions began
};

}  // namespace lockstep::sim
