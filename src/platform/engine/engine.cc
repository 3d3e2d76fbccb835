#include "platform/engine/engine.h"

namespace lockstep::engine {

LaunchRecord launch_record(const Result<host::LaunchSpec>& launch) {
  if (!launch) return {.error = launch.error().message};
  return {.attempt = launch->attempt,
          .host = launch->host,
          .devices = launch->devices,
          .time_left = launch->time_left};
}

std::string EngineList::why_unavailable(const std::string& host) const {
  const auto reason = unavailable.find(host);
  if (reason != unavailable.end()) return reason->second;
  return answered && !answered->contains(host) ? std::string(kNotCalled) : "";
}

bool EngineList::may_exist(const model::NodeName& node, const std::string& host) const {
  return unknown_projects.contains(node.id.attempt.run.project) || !why_unavailable(host).empty();
}

std::string EngineList::why_closed(const std::string& host) const {
  std::string reason = why_unavailable(host);
  if (!reason.empty()) return reason;
  const auto problem = unfit.find(host);
  return problem == unfit.end() ? "" : problem->second;
}

}  // namespace lockstep::engine
