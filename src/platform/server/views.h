// What callers see of the controller's rows.
#pragma once

#include <filesystem>

#include "platform/api/messages.h"
#include "platform/core/model/command.h"
#include "platform/core/model/event.h"
#include "platform/core/model/state.h"
#include "platform/core/sched/plan.h"
#include "platform/core/step/queue.h"
#include "platform/insight/insight.h"

namespace lockstep {

// The run as it stands, and what its ranks said of themselves; without its attempts and
// checkpoints, which lists leave out.
api::RunView run_view(const State& state, const Run& run, insight::RunSummary said,
                      const std::filesystem::path& checkpoint_folder, Time now);
// While it waits: for which run, and until when.
void add_outlook(api::RunView& view, const Run& run, const Queue& queue);
std::vector<api::AttemptView> attempt_views(const State& state, const RunId& run);
std::vector<api::Checkpoint> checkpoint_views(std::vector<insight::Checkpoint> checkpoints);
// What was changed of a run, and what its ranks and agents told, by time.
std::vector<AuditEntry> event_views(std::vector<AuditEntry> audit,
                                    std::vector<insight::RunEvent> told);

api::SeriesList series_list(insight::SeriesPage page);

NodeReport node_report(const NodeName& node, const api::Heartbeat& heartbeat);
api::HeartbeatAnswer heartbeat_answer(const Command& command, std::int64_t acknowledged);

}  // namespace lockstep
