#include "platform/api/heartbeat_version.h"

#include "platform/api/json.h"

namespace lockstep::api {
namespace {

constexpr std::string_view kUnknownToVersion1[] = {"agent_started", "incarnation", "machine",
                                                   "profile"};

}  // namespace

Json heartbeat_json(const Heartbeat& heartbeat, int version) {
  Json json = to_json(heartbeat);
  if (version >= 2) return json;
  for (const std::string_view name : kUnknownToVersion1) json.erase(std::string(name));
  if (heartbeat.stop_reason == model::StopReason::no_environment)
    json["stop_reason"] = name_of(model::StopReason::none);
  return json;
}

}  // namespace lockstep::api
