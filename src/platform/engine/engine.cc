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

std::string EngineList::why_unknown(const std::string& host, const std::string& engine) const {
  if (const auto reason = unlisted.find(engine); reason != unlisted.end()) return reason->second;
  return host.empty() ? "" : why_unavailable(host);
}

bool EngineList::may_exist(const model::NodeName& node, const std::string& host,
                           const std::string& engine) const {
  return unknown_projects.contains(node.id.attempt.run.project) ||
         !why_unknown(host, engine).empty();
}

std::string EngineList::why_closed(const std::string& host) const {
  std::string reason = why_unavailable(host);
  if (!reason.empty()) return reason;
  const auto problem = unfit.find(host);
  return problem == unfit.end() ? "" : problem->second;
}

}  // namespace lockstep::engine
