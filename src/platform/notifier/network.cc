#include "platform/notifier/network.h"

#include <algorithm>
#include <charconv>
#include <cstring>

#include <arpa/inet.h>
#include <netinet/in.h>

#include "base/check.h"
#include "base/format.h"

namespace lockstep::notifier {
namespace {

constexpr int kMappedBits = 96;  // before an IPv4 address
constexpr std::array<std::uint8_t, 12> kMapped = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff};

// IANA's registries of special addresses, for IPv4 (RFC 6890) and within 2000::/3.
constexpr std::string_view kSpecial[] = {
    "0.0.0.0/8",     "10.0.0.0/8",      "100.64.0.0/10",  "127.0.0.0/8",    "169.254.0.0/16",
    "172.16.0.0/12", "192.0.0.0/24",    "192.0.2.0/24",   "192.88.99.0/24", "192.168.0.0/16",
    "198.18.0.0/15", "198.51.100.0/24", "203.0.113.0/24", "224.0.0.0/3",    "2001::/23",
    "2001:db8::/32", "2002::/16",       "3fff::/20"};

std::vector<Network> parsed(std::initializer_list<std::string_view> texts) {
  std::vector<Network> networks;
  for (const std::string_view one : texts) networks.push_back(parse_network(one).value());
  return networks;
}

Address mapped(const void* four_bytes) {
  Address address{};
  std::ranges::copy(kMapped, address.begin());
  std::memcpy(address.data() + kMapped.size(), four_bytes, 4);
  return address;
}

bool is_mapped(const Address& address) {
  return std::equal(kMapped.begin(), kMapped.end(), address.begin());
}

bool contains(const std::vector<Network>& networks, const Address& address) {
  return std::ranges::any_of(networks, [&](const Network& one) { return one.contains(address); });
}

std::optional<Address> parse_address(const std::string& text, bool& is_v4) {
  in_addr v4{};
  in6_addr v6{};
  is_v4 = ::inet_pton(AF_INET, text.c_str(), &v4) == 1;
  if (is_v4) return mapped(&v4);
  if (::inet_pton(AF_INET6, text.c_str(), &v6) != 1) return std::nullopt;
  Address address{};
  std::memcpy(address.data(), &v6, address.size());
  return address;
}

}  // namespace

bool Network::contains(const Address& other) const {
  const auto whole = static_cast<std::size_t>(bits / 8);
  if (!std::equal(address.begin(), address.begin() + static_cast<std::ptrdiff_t>(whole),
                  other.begin()))
    return false;
  const int rest = bits % 8;
  return rest == 0 || (address[whole] ^ other[whole]) >> (8 - rest) == 0;
}

Result<Network> parse_network(std::string_view text) {
  const Error error{Code::invalid,
                    format("'{}' is no network: write one such as 10.1.0.0/16 or fd00::/8", text)};
  const std::size_t slash = std::min(text.find('/'), text.size());
  bool is_v4 = false;
  const auto address = parse_address(std::string(text.substr(0, slash)), is_v4);
  if (!address) return error;
  const int most = is_v4 ? 32 : 128;
  int bits = most;
  if (slash < text.size()) {
    const char* const end = text.data() + text.size();
    const auto [last, failed] = std::from_chars(text.data() + slash + 1, end, bits);
    if (failed != std::errc() || last != end || bits < 0 || bits > most) return error;
  }
  return Network{*address, is_v4 ? kMappedBits + bits : bits};
}

std::optional<Address> address_of(const sockaddr& address) {
  if (address.sa_family == AF_INET)
    return mapped(&reinterpret_cast<const sockaddr_in&>(address).sin_addr);
  if (address.sa_family != AF_INET6) return std::nullopt;
  Address bytes{};
  std::memcpy(bytes.data(), &reinterpret_cast<const sockaddr_in6&>(address).sin6_addr,
              bytes.size());
  return bytes;
}

std::string address_text(const Address& address) {
  char words[INET6_ADDRSTRLEN] = {};
  const bool is_v4 = is_mapped(address);
  LS_CHECK(::inet_ntop(is_v4 ? AF_INET : AF_INET6, address.data() + (is_v4 ? kMapped.size() : 0),
                       words, sizeof words) != nullptr);
  return words;
}

bool is_public(const Address& address) {
  static const std::vector<Network> special = [] {
    std::vector<Network> networks;
    for (const std::string_view one : kSpecial) networks.push_back(parse_network(one).value());
    return networks;
  }();
  static const std::vector<Network> global = parsed({"2000::/3"});
  static const std::vector<Network> translated = parsed({"64:ff9b::/96"});  // to IPv4
  if (contains(translated, address)) return is_public(mapped(address.data() + kMapped.size()));
  return (is_mapped(address) || contains(global, address)) && !contains(special, address);
}

bool may_call(const Address& address, const std::vector<Network>& allowed) {
  return is_public(address) || contains(allowed, address);
}

}  // namespace lockstep::notifier
