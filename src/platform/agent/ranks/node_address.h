// The address under which the other nodes of an attempt reach this one.
#pragma once

#include <string>

#include "base/result.h"
#include "comm/fabric/address/choose_address.h"

namespace lockstep::agent {

// Numeric. `in_map` is the host's address in the map, which may be a name: then the first address
// of an interface is taken if the name means loopback on the host itself, as on Debian.
Result<std::string> node_address(const std::string& in_map, const comm::HostNetwork& network);

}  // namespace lockstep::agent
