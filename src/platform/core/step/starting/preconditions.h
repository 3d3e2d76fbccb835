// Preconditions: what a queued run waits for besides devices. It is held, starts after other runs
// or at a later time, or pauses between two attempts. The scheduler does not have it until then, so
// it blocks no other run. Its place in the queue is that of its arrival.
#pragma once

#include "platform/core/step/handlers/draft.h"

namespace lockstep::step {

// The wait reason of such runs until the next pass.
inline constexpr std::string_view kWaitsForPass = "waits for the next pass over the queue";

// For a run that was submitted or resumed: sets the preconditions that are not met yet.
void init_preconditions(const Draft& draft, model::Run& run);
// Sets the run's reason to why it waits.
void set_wait_reason(const Draft& draft, model::Run& run);
// At a tick: clears the preconditions that are met now. Cancels the run if a dependency has ended
// without success.
void check_preconditions(Draft& draft, const model::RunId& run);

// The refusal of a run that is to start after this one.
Error no_such_dependency(const model::RunId& run);
// An error if too many runs have not ended.
Result<void> check_open_runs(const Draft& draft);
// Checks that the run can depend on these runs.
Result<void> check_dependencies(const Draft& draft, const model::RunSpec& spec);
// `same_folder`: runs that have not ended and write to the run's checkpoint folder. Each of them
// must depend on the run, or the run on it.
Result<void> check_checkpoint_folder(const Draft& draft, const model::RunId& id,
                                     const model::RunSpec& spec,
                                     const std::vector<model::RunId>& same_folder);

}  // namespace lockstep::step
