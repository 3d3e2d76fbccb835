#include "platform/agent/ranks/socket_interface.h"

#include <string>

#include "net/http/url.h"

namespace lockstep::agent {

std::string interface_of(const std::string& address, const comm::HostNetwork& network) {
  const bool loopback = address == "localhost" || net::is_loopback(address);
  const auto numeric = network.resolve(address);
  for (const comm::InterfaceAddress& own : network.local_addresses()) {
    if (!own.up || own.loopback != loopback) continue;
    // All of 127.0.0.0/8 is on the loopback interface, which lists 127.0.0.1.
    if (loopback || own.address == numeric) return own.interface;
  }
  return "";
}

}  // namespace lockstep::agent
