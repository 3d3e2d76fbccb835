// The calls of hosts that join, as they reach the controller and its HostsEngine. Neither of the
// two knows the other.
#pragma once

#include <string>

#include "platform/api/host_service_messages.h"
#include "platform/controller/controller.h"
#include "platform/engine/hosts/hosts_engine.h"

namespace lockstep::controller {

// The report of a host whose service has proven its credential. Its nodes count at once. Its facts
// count once they are stored: until then the host takes no node.
void take_host_report(Controller& controller, engine::HostsEngine& engine, const std::string& host,
                      const api::ServiceReport& report);

// An operator removes a host.
Result<void> remove_host(Controller& controller, engine::HostsEngine& engine,
                         const model::RemoveHost& removal, const Controller::Record& record);

}  // namespace lockstep::controller
