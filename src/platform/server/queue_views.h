// What callers see of who waits, of who holds devices, and of the hosts.
#pragma once

#include <vector>

#include "platform/api/orphan_messages.h"
#include "platform/api/queue_messages.h"
#include "platform/core/model/state.h"
#include "platform/core/step/prospect.h"
#include "platform/core/step/queue.h"

namespace lockstep {

// At most `limit` of those who wait and of those who hold devices.
api::QueueView queue_view(const State& state, const Queue& queue, int limit, Time now);
api::PlanView plan_view(const Prospect& prospect);
api::HostList host_list(const State& state);
api::OrphanList orphan_list(const State& state);
api::LimitList limit_list(const State& state);

}  // namespace lockstep
