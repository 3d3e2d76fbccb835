// The facts of this host that the map of the cluster has.
#pragma once

#include <filesystem>
#include <optional>
#include <string>

#include "base/result.h"
#include "base/units.h"
#include "comm/fabric/address/choose_address.h"
#include "map/discover/discover.h"
#include "map/map.h"

namespace lockstep::host_service {

// The address of the interface on the way to the daemon. If the daemon is on this machine: that of
// the first interface that is up; 127.0.0.1 if there is none.
std::string address_towards(const comm::HostNetwork& network, const std::string& daemon_url);

// The speed of the interface with that address, which may be a name; nullopt: its driver does not
// know it, or no interface has the address. interfaces: the kernel's folder of all interfaces.
std::optional<Bandwidth> speed_of_address(
    const comm::HostNetwork& network, const std::string& address,
    const std::filesystem::path& interfaces = "/sys/class/net");

// The link to the leaf has the speed of the address's interface. Errors: the hardware cannot be
// described.
Result<map::Host> host_facts(const std::string& id, const std::string& address,
                             const map::GpuSources& gpus, const comm::HostNetwork& network);

}  // namespace lockstep::host_service
