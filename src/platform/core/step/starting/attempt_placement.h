// Starts attempts on devices, and preempts them for other runs.
#pragma once

#include <string>

#include "platform/core/sched/plan.h"
#include "platform/core/step/handlers/draft.h"

namespace lockstep::step {

// Starts the run's next attempt on these devices. Without names of hosts, the engine chooses them.
// The run must have no live attempt.
void start_attempt(Draft& draft, sched::Placement placement);

// True if a run can start on these devices: there are some, the map has them and no host is closed.
bool can_start_on(const Draft& draft, const std::vector<model::HostDevices>& devices);

// A run has to leave its devices: it moves to `destination` or, if that is empty, waits again.
struct PreemptionNotice {
  model::RunId run;
  std::vector<model::HostDevices> destination{};
  std::optional<model::RunId>
      beneficiary{};  // the run that needs the devices; none: its host is drained
};
// Begins to drain its attempt. The run and its events give the reason.
void preempt_run(Draft& draft, const PreemptionNotice& notice);

}  // namespace lockstep::step
