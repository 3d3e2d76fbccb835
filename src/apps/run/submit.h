// Submits a run, once, however often the call has to be repeated.
#pragma once

#include <optional>
#include <string>

#include "apps/run/follow.h"
#include "base/result.h"
#include "platform/client/client.h"

namespace lockstep::cli {

// For Ctrl-C while a submission may be under way.
inline constexpr auto kInterrupted =
    "interrupted; `lockstep ps` shows whether the run was submitted";

// Repeats the call while the daemon is away: the request id makes sure that the run is made once.
// An empty id: a new one. `source`: the run that this one is forked from, whose values the hidden
// ones of `env` are. The caller must hold an InterruptHandler.
Result<api::RunView> submit(client::Client& client, const model::RunSpec& spec,
                            const std::string& request_id,
                            const std::optional<model::RunId>& source = std::nullopt);

// Stores the uncommitted changes of the run's folder as its artifact lockstep/code.diff. The run
// exists already, so an error is a message only.
void keep_changes(client::Client& client, const api::RunView& run);

enum class AfterSubmission { follow, detach };
// Says that the run was submitted, and follows it until its end or Ctrl-C. Returns the exit code.
Result<int> follow_submitted(client::Client& client, const api::RunView& run,
                             InterruptHandler& interrupt, AfterSubmission after);

}  // namespace lockstep::cli
