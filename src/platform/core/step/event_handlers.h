// One function for each kind of event.
#pragma once

#include "platform/core/step/draft.h"

namespace lockstep {

Result<void> handle(Draft& draft, const SubmitRun& event);
Result<void> handle(Draft& draft, const StopRun& event);
Result<void> handle(Draft& draft, const ResumeRun& event);
Result<void> handle(Draft& draft, const HoldRun& event);
Result<void> handle(Draft& draft, const ReleaseRun& event);
Result<void> handle(Draft& draft, const SetPriority& event);
Result<void> handle(Draft& draft, const SetHost& event);
Result<void> handle(Draft& draft, const SetLimit& event);
Result<void> handle(Draft& draft, const SetWeight& event);
Result<void> handle(Draft& draft, const NodeReport& event);
Result<void> handle(Draft& draft, const LaunchFailed& event);
Result<void> handle(Draft& draft, const NodeGone& event);
Result<void> handle(Draft& draft, const AgentGone& event);
Result<void> handle(Draft& draft, const OrphansSeen& event);
Result<void> handle(Draft& draft, const StopOrphan& event);
Result<void> handle(Draft& draft, const AdoptOrphan& event);
Result<void> handle(Draft& draft, const Tick& event);
Result<void> handle(Draft& draft, const DaemonStarted& event);
Result<void> handle(Draft& draft, const ClockRead& event);

}  // namespace lockstep
