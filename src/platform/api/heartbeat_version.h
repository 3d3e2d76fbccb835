// The versions of Heartbeat. A daemon states in its proof (Health) which version it reads.
//
// Version 1 is that of Lockstep 0.1, which rejects fields that it does not know. Later daemons
// ignore these, so a field that is added now needs no new version: add its name to the fields that
// version 1 lacks.
#pragma once

#include <vector>

#include "platform/api/agent_messages.h"
#include "platform/spool/telemetry_item.h"
#include "text/json.h"

namespace lockstep::api {

inline constexpr int kHeartbeatVersion = 2;

// With the fields that a daemon of this version accepts.
Json heartbeat_json(const Heartbeat& heartbeat, int version);
// The same of items that an agent has left behind.
std::vector<spool::TelemetryItem> items_for(std::vector<spool::TelemetryItem> items, int version);

}  // namespace lockstep::api
