#include "platform/controller/host_reports.h"

#include "base/log.h"

namespace lockstep::controller {

// The service sends its facts again every minute. A row that is gone was removed meanwhile.
void take_host_report(Controller& controller, engine::HostsEngine& engine, const std::string& host,
                      const api::ServiceReport& report) {
  if (!engine.take(host, report) || !report.facts) return;
  const auto stored = controller.apply_operator_event(model::DescribeHost{host, *report.facts});
  engine.record_facts(host, stored);
  if (!stored)
    LS_LOG(warning, "the devices of host {} are not on the map: {}", host, stored.error().message);
}

Result<void> remove_host(Controller& controller, engine::HostsEngine& engine,
                         const model::RemoveHost& removal, const Controller::Record& record) {
  TRY(controller.apply_operator_event(removal, record));
  engine.forget(removal.host);
  return {};
}

}  // namespace lockstep::controller
