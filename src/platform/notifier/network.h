// Networks of IP addresses, and which addresses a webhook may reach.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <sys/socket.h>

#include "base/result.h"

namespace lockstep::notifier {

// An IPv4 address is the IPv6 address that maps it.
using Address = std::array<std::uint8_t, 16>;

struct Network {
  Address address{};
  int bits = 128;  // of the address that are the network's

  bool contains(const Address& other) const;
};

// "10.1.0.0/16", "fd00::/8", or one address. Code::invalid: it is none.
Result<Network> parse_network(std::string_view text);

// None: it is no address of IP.
std::optional<Address> address_of(const sockaddr& address);
std::string address_text(const Address& address);

// An address of the public internet: no loopback, private, link-local, shared, reserved or
// multicast one, and no IPv6 address that contains an IPv4 address of these.
bool is_public(const Address& address);
bool may_call(const Address& address, const std::vector<Network>& allowed);

}  // namespace lockstep::notifier
