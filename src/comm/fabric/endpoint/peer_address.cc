#include "comm/fabric/endpoint/peer_address.h"

#include <charconv>
#include <utility>

#include "comm/rendezvous/frame.h"

namespace lockstep::comm {

std::string encode_address(const PeerAddress& address) {
  return join_fields(
      {address.host_id, address.unix_name, address.tcp, std::to_string(address.pid)});
}

Result<PeerAddress> parse_peer_address(std::string_view entry) {
  auto fields = TRY(split_fields(entry, 4));
  PeerAddress address{std::move(fields[0]), std::move(fields[1]), std::move(fields[2])};
  const auto& pid = fields[3];
  const auto parsed = std::from_chars(pid.data(), pid.data() + pid.size(), address.pid);
  if (parsed.ec != std::errc() || parsed.ptr != pid.data() + pid.size())
    return Error{Code::corrupt, "the address of a rank names no process"};
  return address;
}

}  // namespace lockstep::comm
