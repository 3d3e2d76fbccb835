// Submits a run, once, however often the call has to be repeated.
#pragma once

#include <string>

#include "base/result.h"
#include "platform/client/client.h"

namespace lockstep::cli {

// For Ctrl-C while a submission may be under way.
inline constexpr auto kInterrupted =
    "interrupted; `lockstep ps` shows whether the run was submitted";

// Repeats the call while the daemon is away: the request id makes sure that the run is made once.
// An empty id: a new one. The caller must hold an InterruptHandler.
Result<api::RunView> submit(client::Client& client, const model::RunSpec& spec,
                            const std::string& request_id);

}  // namespace lockstep::cli
