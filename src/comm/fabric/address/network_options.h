// NetworkOptions: what the user, or the map by way of the agent, says of the network between hosts.
#pragma once

#include <string>

#include "base/environment.h"
#include "base/result.h"
#include "comm/fabric/address/port_range.h"
#include "net/silence.h"

namespace lockstep {

struct NetworkOptions {
  // "tcp": connections of our own; any other name is a provider of libfabric ("efa", "verbs").
  std::string provider = "tcp";
  // Of these two one at most; neither: choose_address() looks for itself.
  std::string interface = {};
  std::string address = {};  // or a name of this host
  PortRange ports = {};
  // A host that all ranks reach, where they meet: tells which interface leads to them. May be
  // empty.
  std::string meeting_host = {};
  Duration silence = kSilenceBound;  // of a peer's host, after which the connections to it are lost
};

// From LOCKSTEP_FABRIC_PROVIDER, LOCKSTEP_INTERFACE, LOCKSTEP_ADDRESS, LOCKSTEP_PORT_RANGE,
// LOCKSTEP_CONNECTION_TIMEOUT; the meeting place from LOCKSTEP_RENDEZVOUS, else MASTER_ADDR.
Result<NetworkOptions> network_options_of(const Environment& environment);

}  // namespace lockstep
