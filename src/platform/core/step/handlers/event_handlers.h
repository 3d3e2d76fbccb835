// One function for each kind of event.
#pragma once

#include "platform/core/step/handlers/draft.h"

namespace lockstep {

Result<void> handle_event(Draft& draft, const SubmitRun& event);
Result<void> handle_event(Draft& draft, const StopRun& event);
Result<void> handle_event(Draft& draft, const ResumeRun& event);
Result<void> handle_event(Draft& draft, const HoldRun& event);
Result<void> handle_event(Draft& draft, const ReleaseRun& event);
Result<void> handle_event(Draft& draft, const SetPriority& event);
Result<void> handle_event(Draft& draft, const SetHost& event);
Result<void> handle_event(Draft& draft, const SetLimit& event);
Result<void> handle_event(Draft& draft, const SetWeight& event);
Result<void> handle_event(Draft& draft, const NodeReport& event);
Result<void> handle_event(Draft& draft, const LaunchFailed& event);
Result<void> handle_event(Draft& draft, const NodeTerminated& event);
Result<void> handle_event(Draft& draft, const AgentExited& event);
Result<void> handle_event(Draft& draft, const OrphansListed& event);
Result<void> handle_event(Draft& draft, const StopOrphan& event);
Result<void> handle_event(Draft& draft, const AdoptOrphan& event);
Result<void> handle_event(Draft& draft, const Tick& event);
Result<void> handle_event(Draft& draft, const DaemonStarted& event);
Result<void> handle_event(Draft& draft, const ClockChanged& event);

}  // namespace lockstep
