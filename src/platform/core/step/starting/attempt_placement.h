// Starts attempts on devices, and preempts them for other runs.
#pragma once

#include <string>

#include "platform/core/sched/plan.h"
#include "platform/core/step/handlers/draft.h"

namespace lockstep {

// Starts the run's next attempt on these devices. The run must have no live attempt.
void start_attempt(Draft& draft, Placement placement);

// True if a run can start on these devices: there are some, the map has them and no host is closed.
bool can_start_on(const Draft& draft, const std::vector<HostDevices>& devices);

// A run has to leave its devices: it moves to `destination` or, if that is empty, waits again.
struct PreemptionNotice {
  RunId run;
  std::vector<HostDevices> destination{};
  std::optional<RunId> beneficiary{};  // the run that needs the devices; none: its host is drained
};
// Begins to drain its attempt. The run and its events give the reason.
void preempt_run(Draft& draft, const PreemptionNotice& notice);

}  // namespace lockstep
