#include "platform/api/heartbeat_version.h"

#include <algorithm>

#include "platform/api/json.h"

namespace lockstep::api {
namespace {

constexpr std::string_view kUnknownToVersion1[] = {"agent_started",   "idle_since", "incarnation",
                                                   "known_time_left", "machine",    "nccl_network",
                                                   "profile"};

// Without values, but with its sequence, so that a daemon that knows no telemetry acknowledges it.
spool::TelemetryItem nothing_in_place_of(const spool::TelemetryItem& item, std::int64_t step) {
  return {.sequence = item.sequence,
          .kind = spool::TelemetryKind::metrics,
          .rank = item.rank,
          .step = step,
          .time = item.time};
}

// The step of a rank, which that daemon takes from the items, too.
std::int64_t step_of(const Heartbeat& heartbeat, int rank) {
  const auto found = std::ranges::find(heartbeat.ranks, rank, &model::Rank::rank);
  return found == heartbeat.ranks.end() ? 0 : found->step;
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
      json["items"][i] = to_json(
          nothing_in_place_of(heartbeat.items[i], step_of(heartbeat, heartbeat.items[i].rank)));
  for (std::size_t i = 0; i < heartbeat.ranks.size(); ++i)
    if (heartbeat.ranks[i].fault == report::Fault::out_of_memory)
      json["ranks"][i]["fault"] = name_of(report::Fault::none);
  return json;
}

std::vector<spool::TelemetryItem> items_for(std::vector<spool::TelemetryItem> items, int version) {
  if (version >= 2) return items;
  for (spool::TelemetryItem& item : items)
    if (item.kind == spool::TelemetryKind::telemetry) item = nothing_in_place_of(item, 0);
  return items;
}

}  // namespace lockstep::api
