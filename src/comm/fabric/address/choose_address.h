// Selects which of its host's addresses a rank publishes to the others.
//
// Hosts have several: loopback, a management network, bridges to containers, the fast network. The
// first one that getifaddrs() lists, or the one that the host's name resolves to (127.0.1.1 on
// Debian), is often unreachable from other hosts. The order is:
//   1. the configured address or interface, or an error if it cannot be used
//   2. the source address of the route to the rendezvous, which all ranks reach
//   3. the first that is up and belongs neither to loopback nor to a bridge for containers or
//         virtual machines; IPv4 before IPv6
//   4. loopback: then all ranks are on this host
// A rendezvous name that resolves to loopback on its own host gives no information. A rendezvous
// that is configured as loopback means that all ranks are on this host.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "comm/fabric/address/network_options.h"

namespace lockstep::comm {

struct InterfaceAddress {
  std::string address;  // numeric
  std::string interface;
  bool loopback = false;
  bool up = true;
};
std::string text(const InterfaceAddress& address);  // "eth1 (10.0.0.1)"

// The inputs of the choice besides the options.
class HostNetwork {
 public:
  virtual ~HostNetwork() = default;
  // All addresses of this host, IPv4 before IPv6.
  virtual std::vector<InterfaceAddress> local_addresses() const = 0;
  // The first numeric address of a host; nullopt if its name is unknown.
  virtual std::optional<std::string> resolve(const std::string& host) const = 0;
  // The source address of packets to this numeric address; nullopt if there is no route.
  virtual std::optional<std::string> source_address_for(const std::string& address) const = 0;
};

Result<InterfaceAddress> choose_address(const NetworkOptions& options, const HostNetwork& network);
// On this machine.
Result<InterfaceAddress> choose_address(const NetworkOptions& options);

}  // namespace lockstep::comm
