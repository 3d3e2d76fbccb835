// API views of waiting runs, allocations and hosts.
#pragma once

#include <vector>

#include "platform/api/orphan_messages.h"
#include "platform/api/queue_messages.h"
#include "platform/core/model/state.h"
#include "platform/core/step/starting/dry_run.h"
#include "platform/core/step/starting/incremental_scheduler.h"

namespace lockstep::server {

// At most `limit` waiting runs and `limit` allocations.
api::QueueView queue_view(const model::State& state, const step::IncrementalScheduler& scheduler,
                          int limit, Time now);
api::PlanView plan_view(const step::DryRunResult& result, const model::RunSpec& spec,
                        const model::State& state);
api::HostList host_list(const model::State& state);
api::OrphanList orphan_list(const model::State& state);
api::LimitList limit_list(const model::State& state);
// "2h", "off", or empty: the default.
std::string idle_stop_text(const model::LimitRow& limit);

}  // namespace lockstep::server
