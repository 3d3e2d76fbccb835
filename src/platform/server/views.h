// What callers see of the controller's rows.
#pragma once

#include <filesystem>

#include "platform/api/messages.h"
#include "platform/core/model/command.h"
#include "platform/core/model/event.h"
#include "platform/core/model/state.h"
#include "platform/insight/insight.h"

namespace lockstep {

enum class Detail {
  summary,  // for lists: without attempts and checkpoints
  full,
};

// The run as it stands, with what its ranks said of themselves.
Result<api::RunView> run_view(const State& state, const Run& run, insight::Insight& insight,
                              const std::filesystem::path& checkpoint_folder, Time now,
                              Detail detail);

api::SeriesList series_list(insight::SeriesPage page);

NodeReport node_report(const NodeId& node, const api::Heartbeat& heartbeat);
api::HeartbeatAnswer heartbeat_answer(const Command& command, std::int64_t acknowledged);

}  // namespace lockstep
