// API views of the controller's rows.
#pragma once

#include <filesystem>

#include "platform/api/messages.h"
#include "platform/core/model/command.h"
#include "platform/core/model/event.h"
#include "platform/core/model/state.h"
#include "platform/core/sched/plan.h"
#include "platform/core/step/starting/incremental_scheduler.h"
#include "platform/insight/insight.h"

namespace lockstep::server {

// The time of ended attempts, and of the live one so far.
double running_seconds(const model::State& state, const model::Run& run, Time now);

// The run's state, and the summary that its ranks reported; without its attempts and checkpoints,
// which lists omit.
api::RunView run_view(const model::State& state, const model::Run& run, insight::RunSummary summary,
                      const std::filesystem::path& checkpoint_folder, Time now);
// The reasons of waiting runs, which name the head of the queue; rows name none. The views are
// those of the runs.
void add_wait_reasons(std::vector<api::RunView>& views, const std::vector<model::Run>& runs,
                      const step::IncrementalScheduler& scheduler);
// While it waits: the blocking run and the estimated start.
void add_start_estimate(api::RunView& view, const model::Run& run,
                        const step::IncrementalScheduler& scheduler);
std::vector<api::AttemptView> attempt_views(const model::State& state, const model::RunId& run);
// Changes of a run by users, and events that its ranks and agents reported, by time.
std::vector<model::AuditEntry> event_views(std::vector<model::AuditEntry> audit,
                                           std::vector<insight::RunEvent> events);

// The sequence of its last item; 0: it has none.
// The node's share of the devices of its host; 1 if it is unknown.
double host_share(const model::State& state, const model::NodeId& node);
std::int64_t last_item_of(const api::Heartbeat& heartbeat);
model::NodeReport node_report(const model::NodeName& node, const api::Heartbeat& heartbeat);
api::HeartbeatAnswer heartbeat_answer(const model::Command& command, std::int64_t acknowledged);

}  // namespace lockstep::server
