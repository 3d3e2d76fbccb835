// PortRange: the ports on which a rank may listen, for networks with a firewall between the hosts.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "base/format.h"
#include "base/result.h"

namespace lockstep::comm {

// first 0: any free port. Else both ends are included.
struct PortRange {
  std::uint16_t first = 0;
  std::uint16_t last = 0;
  bool is_any() const { return first == 0; }
  bool operator==(const PortRange&) const = default;
};

// "20000-20999", or one port.
Result<PortRange> parse_port_range(std::string_view range_text);
std::string text(const PortRange& ports);

// Returns the result of open(port) for the first free port of the range on this address. A port is
// skipped when open returns already_exists. `exhausted` when none is free.
template <class Open>
auto on_free_port(const std::string& address, const PortRange& ports, Open open)
    -> decltype(open(std::uint16_t{0})) {
  if (ports.is_any()) return open(std::uint16_t{0});
  for (std::uint32_t port = ports.first; port <= ports.last; ++port) {
    auto opened = open(static_cast<std::uint16_t>(port));
    if (opened || opened.error().code != Code::already_exists) return opened;
  }
  return Error{Code::exhausted,
               format("no port of {} is free on {}: end what holds them, or widen "
                      "LOCKSTEP_PORT_RANGE (two for each rank of a host while it joins a group)",
                      text(ports), address)};
}

}  // namespace lockstep::comm
