// DryRunResult: what would happen to a run if it were submitted now.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "platform/core/model/event.h"
#include "platform/core/model/state.h"
#include "platform/core/sched/plan.h"

namespace lockstep::step {

// A run that would have to leave its devices for the new run.
struct PreemptedRun {
  model::RunId run;
  model::Cause cause = model::Cause::none;      // moved, paused or evicted
  std::string from;                             // its host; the first of several
  std::vector<model::HostDevices> destination;  // if it is moved
};

struct DryRunResult {
  std::vector<model::HostDevices> devices;  // where it would start at once; empty: it would wait
  std::string reason;                       // why it would wait
  std::optional<model::RunId> blocker;      // the run that blocks it
  sched::StartTimes starts;                 // when it would start
  std::size_t runs_ahead = 0;               // how many would be ahead of it
  std::vector<PreemptedRun> preempted;      // runs that would be preempted at once
};

// By step() itself, of which nothing is kept. Refused as the submission would be.
Result<DryRunResult> dry_run(const model::State& state, const model::SubmitRun& event, Time now);

}  // namespace lockstep::step
