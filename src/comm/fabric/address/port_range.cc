#include "comm/fabric/address/port_range.h"

#include <charconv>
#include <optional>

namespace lockstep::comm {
namespace {

std::optional<std::uint16_t> port_in(std::string_view digits) {
  std::uint16_t port = 0;
  const auto parsed = std::from_chars(digits.begin(), digits.end(), port);
  if (parsed.ec != std::errc() || parsed.ptr != digits.end() || port == 0) return std::nullopt;
  return port;
}

}  // namespace

Result<PortRange> parse_port_range(std::string_view range_text) {
  const auto dash = range_text.find('-');
  const auto first = port_in(range_text.substr(0, dash));
  const auto last = dash == std::string_view::npos ? first : port_in(range_text.substr(dash + 1));
  if (!first || !last || *first > *last)
    return Error{
        Code::invalid,
        format("'{}' is no range of ports: write it as 20000-20999, of 1 to 65535", range_text)};
  return PortRange{*first, *last};
}

std::string text(const PortRange& ports) {
  if (ports.is_any()) return "any";
  return ports.first == ports.last ? format("{}", ports.first)
                                   : format("{}-{}", ports.first, ports.last);
}

}  // namespace lockstep::comm
