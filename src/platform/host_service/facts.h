// The facts of this host that the map of the cluster has.
#pragma once

#include <string>

#include "base/result.h"
#include "comm/fabric/address/choose_address.h"
#include "map/discover/discover.h"
#include "map/map.h"

namespace lockstep::host_service {

// The address of the interface on the way to the daemon. If the daemon is on this machine: that of
// the first interface that is up; 127.0.0.1 if there is none.
std::string address_towards(const comm::HostNetwork& network, const std::string& daemon_url);

// Errors: the hardware cannot be described.
Result<map::Host> host_facts(const std::string& id, const std::string& address,
                             const map::GpuSources& gpus);

}  // namespace lockstep::host_service
