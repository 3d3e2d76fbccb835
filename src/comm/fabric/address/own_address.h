// Which of its host's addresses a rank gives to the others.
//
// Hosts have several: loopback, a management network, bridges to containers, the fast network. The
// first that getifaddrs() names, or what the host's name resolves to (127.0.1.1 on Debian), is
// often one that no other host reaches. In this order:
//   1. the address or the interface that is set, or why that cannot be
//   2. the one from which the meeting place is reached, which all ranks reach
//   3. the first that is up and belongs neither to loopback nor to a bridge for containers or
//      virtual machines; IPv4 before IPv6
//   4. loopback: then all ranks are on this host
// A meeting place that is loopback, because a name resolves so on its own host, tells nothing; one
// that was given as loopback says that all ranks are here.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "comm/fabric/address/network_options.h"

namespace lockstep {

struct OwnAddress {
  std::string address;  // numeric
  std::string interface;
  bool loopback = false;
  bool up = true;
};
std::string text(const OwnAddress& address);  // "eth1 (10.0.0.1)"

// What the choice depends on besides the options.
class HostNetwork {
 public:
  virtual ~HostNetwork() = default;
  // All of this host, IPv4 before IPv6.
  virtual std::vector<OwnAddress> own_addresses() const = 0;
  // The first numeric address of a host; nothing if its name is not known.
  virtual std::optional<std::string> resolved(const std::string& host) const = 0;
  // The own address from which packets to this numeric address leave; nothing if no route leads
  // there.
  virtual std::optional<std::string> source_towards(const std::string& address) const = 0;
};

Result<OwnAddress> choose_address(const NetworkOptions& options, const HostNetwork& network);
// On this machine.
Result<OwnAddress> choose_address(const NetworkOptions& options);

}  // namespace lockstep
