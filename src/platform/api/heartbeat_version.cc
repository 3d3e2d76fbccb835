#include "platform/api/heartbeat_version.h"

#include "platform/api/json.h"

namespace lockstep::api {
namespace {

constexpr std::string_view kUnknownToVersion1[] = {"agent_started",   "idle_since", "incarnation",
                                                   "known_time_left", "machine",    "profile"};

// With its sequence, so that a daemon that knows no telemetry acknowledges it.
spool::TelemetryItem nothing_in_place_of(const spool::TelemetryItem& item) {
  return {.sequence = item.sequence,
          .kind = spool::TelemetryKind::metrics,
          .rank = item.rank,
          .time = item.time};
}

}  // namespace

Json heartbeat_json(const Heartbeat& heartbeat, int version) {
  Json json = to_json(heartbeat);
  if (version >= 2) return json;
  for (const std::string_view name : kUnknownToVersion1) json.erase(std::string(name));
  if (heartbeat.stop_reason == model::StopReason::no_environment)
    json["stop_reason"] = name_of(model::StopReason::none);
  for (std::size_t i = 0; i < heartbeat.items.size(); ++i)
    if (heartbeat.items[i].kind == spool::TelemetryKind::telemetry)
      json["items"][i] = to_json(nothing_in_place_of(heartbeat.items[i]));
  for (std::size_t i = 0; i < heartbeat.ranks.size(); ++i)
    if (heartbeat.ranks[i].fault == report::Fault::out_of_memory)
      json["ranks"][i]["fault"] = name_of(report::Fault::none);
  return json;
}

}  // namespace lockstep::api
