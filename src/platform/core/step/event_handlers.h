// One function for each kind of event, and the pass over the queue that follows most of them.
#pragma once

#include "platform/core/step/draft.h"

namespace lockstep {

Result<void> handle(Draft& draft, const SubmitRun& event);
Result<void> handle(Draft& draft, const StopRun& event);
Result<void> handle(Draft& draft, const ResumeRun& event);
Result<void> handle(Draft& draft, const NodeReport& event);
Result<void> handle(Draft& draft, const LaunchFailed& event);
Result<void> handle(Draft& draft, const NodeGone& event);
Result<void> handle(Draft& draft, const AgentGone& event);
Result<void> handle(Draft& draft, const Tick& event);
Result<void> handle(Draft& draft, const DaemonStarted& event);

// Whether devices were freed or soon will be, a run came into the queue or left it, or a pause
// ended: nothing else gives the pass another answer, so that heartbeats and most ticks go without.
bool queue_may_move(const Draft& draft);
// Starts what can start and tells the others why they wait.
void run_queue(Draft& draft);

}  // namespace lockstep
