// PeerAddress: where a rank listens, as it publishes it in the rendezvous.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "base/result.h"

namespace lockstep::comm {

struct PeerAddress {
  std::string host_id, unix_name, tcp;  // tcp: "host:port"
  std::int64_t pid = 0;
};

std::string encode_address(const PeerAddress& address);
Result<PeerAddress> parse_peer_address(std::string_view entry);

}  // namespace lockstep::comm
