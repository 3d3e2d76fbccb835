// The network interface that NCCL uses for its connections, NCCL_SOCKET_IFNAME.
#pragma once

#include <string>

#include "comm/fabric/address/choose_address.h"

namespace lockstep::agent {

// The interface of this host with the address (numeric or a name) by which other hosts reach it.
// Loopback only if the address itself is loopback: Debian resolves a host's own name to 127.0.1.1.
// Empty if no interface that is up has it.
std::string interface_of(const std::string& address, const comm::HostNetwork& network);

}  // namespace lockstep::agent
