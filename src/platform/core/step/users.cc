// What users ask for: a run, its end.
#include "base/format.h"
#include "platform/core/sched/pass.h"
#include "platform/core/step/ending.h"
#include "platform/core/step/handlers.h"

namespace lockstep {

Result<void> handle(Draft& draft, const SubmitRun& event) {
  TRY(check(event.spec));
  Run run;
  run.id = draft.next_run_id(event.spec.project);
  TRY(check_fits(draft.map(), {run.id, event.spec.nodes, event.spec.devices}));
  run.spec = event.spec;
  run.origin = event.origin;
  run.submitted = draft.now();
  run.reason = "waits for the next pass over the queue";
  draft.runs.add(std::move(run));
  return {};
}

// Of a run that has ended, or is being stopped, nothing changes: stopping twice is no mistake.
Result<void> handle(Draft& draft, const StopRun& event) {
  const Run* found = draft.runs.find(event.run);
  if (!found)
    return Error{Code::not_found,
                 format("there is no run {}; `lockstep ps` lists them", text(event.run))};
  if (is_final(found->state) || found->stop_requested) return {};
  const auto reason =
      event.reason.empty() ? std::string("stopped") : "stopped: " + one_line(event.reason);
  Run& run = draft.runs.edit(event.run);
  run.stop_requested = true;
  if (const Attempt* attempt = draft.live_attempt(event.run))
    begin_draining(draft, attempt->id, Cause::cancelled, reason);
  else
    end_run(run, RunState::cancelled, reason, draft.now());
  return {};
}

}  // namespace lockstep
