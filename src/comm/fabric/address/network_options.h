// NetworkOptions: the settings of the network between hosts, from the user, or from the map by the
// agent.
#pragma once

#include <string>

#include "base/os/environment.h"
#include "base/result.h"
#include "comm/fabric/address/port_range.h"
#include "net/connection_timeout.h"

namespace lockstep::comm {

struct NetworkOptions {
  // "tcp": Lockstep's own connections; any other name is a libfabric provider ("efa", "verbs").
  std::string provider = "tcp";
  // At most one of these two is set; if neither is, choose_address() selects one.
  std::string interface = {};
  std::string address = {};  // or a name of this host
  PortRange ports = {};
  // The host of the rendezvous, which all ranks reach: it determines the interface. May be empty.
  std::string rendezvous_host = {};
  Duration connection_timeout =
      net::kConnectionTimeout;  // of a peer's host; after it the connections to the host are lost
};

// Reads LOCKSTEP_FABRIC_PROVIDER, LOCKSTEP_INTERFACE, LOCKSTEP_ADDRESS, LOCKSTEP_PORT_RANGE,
// LOCKSTEP_CONNECTION_TIMEOUT; the rendezvous from LOCKSTEP_RENDEZVOUS, else MASTER_ADDR.
Result<NetworkOptions> network_options_from_environment(const Environment& environment);

}  // namespace lockstep::comm
