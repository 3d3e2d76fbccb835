// StepBackend: the platform's whole decision, on rows in memory. Its agents obey within the second
// of the request: a launch runs at once, and a job that ends is gone at once. So its only
// difference from the pass alone (pass_backend.h) is the code around the pass, and the schedules
// must be equal.
//
// All events of a second are one batch, decided once. There are no ticks: time alone starts no run,
// and nothing is late here.
//
// Cost: a job's rows are written about six times in its life, which takes tens of microseconds.
#pragma once

#include <span>
#include <vector>

#include "platform/core/step/decider.h"
#include "sim/replay/replay.h"

namespace lockstep::sim {

class StepBackend : public ReplayBackend {
 public:
  // pending_runs: as pending_runs_of() makes them; step() decides what is not part of a run's spec.
  StepBackend(const map::ClusterMap& map, const sched::SchedulingPolicy& policy,
              std::vector<sched::PendingRun> pending_runs);

  Result<Decision> decide(Seconds now, std::span<const JobId> ended,
                          std::span<const JobId> arrived) override;

 private:
  using Events = std::vector<model::Event>;

  void add_arrival(Events& events, JobId job) const;
  void add_end(Events& events, JobId job) const;
  // The reports of the runs that were told to start.
  Events reports_after(const std::vector<model::Effect>& effects) const;
  Result<std::vector<model::Effect>> apply_events(const Events& events, Seconds now);

  const std::vector<sched::PendingRun> pending_runs_;
  step::Decider decider_;
};

}  // namespace lockstep::sim
