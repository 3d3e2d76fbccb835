// One function for each kind of event.
#pragma once

#include "platform/core/step/handlers/draft.h"

namespace lockstep::step {

Result<void> handle_event(Draft& draft, const model::SubmitRun& event);
Result<void> handle_event(Draft& draft, const model::StopRun& event);
Result<void> handle_event(Draft& draft, const model::ResumeRun& event);
Result<void> handle_event(Draft& draft, const model::HoldRun& event);
Result<void> handle_event(Draft& draft, const model::ReleaseRun& event);
Result<void> handle_event(Draft& draft, const model::SetPriority& event);
Result<void> handle_event(Draft& draft, const model::ExtendRun& event);
Result<void> handle_event(Draft& draft, const model::AnnotateRun& event);
Result<void> handle_event(Draft& draft, const model::SetHost& event);
Result<void> handle_event(Draft& draft, const model::AdmitHost& event);
Result<void> handle_event(Draft& draft, const model::DescribeHost& event);
Result<void> handle_event(Draft& draft, const model::RemoveHost& event);
Result<void> handle_event(Draft& draft, const model::HostDead& event);
Result<void> handle_event(Draft& draft, const model::LabelHost& event);
Result<void> handle_event(Draft& draft, const model::SetMeasured& event);
Result<void> handle_event(Draft& draft, const model::SetLimit& event);
Result<void> handle_event(Draft& draft, const model::SetWeight& event);
Result<void> handle_event(Draft& draft, const model::SetIdleStop& event);
Result<void> handle_event(Draft& draft, const model::GrantBudget& event);
Result<void> handle_event(Draft& draft, const model::WithdrawBudget& event);
Result<void> handle_event(Draft& draft, const model::MoveBudget& event);
Result<void> handle_event(Draft& draft, const model::LiftBudget& event);
Result<void> handle_event(Draft& draft, const model::SetRate& event);
Result<void> handle_event(Draft& draft, const model::AttachNode& event);
Result<void> handle_event(Draft& draft, const model::NodeReport& event);
Result<void> handle_event(Draft& draft, const model::NodeSeen& event);
Result<void> handle_event(Draft& draft, const model::HostsSeen& event);
Result<void> handle_event(Draft& draft, const model::OrphansListed& event);
Result<void> handle_event(Draft& draft, const model::StopOrphan& event);
Result<void> handle_event(Draft& draft, const model::AdoptOrphan& event);
Result<void> handle_event(Draft& draft, const model::Tick& event);
Result<void> handle_event(Draft& draft, const model::DaemonStarted& event);
Result<void> handle_event(Draft& draft, const model::ClockChanged& event);

}  // namespace lockstep::step
