#include "platform/agent/ranks/node_address.h"

#include <utility>

#include "comm/fabric/address/network_options.h"

namespace lockstep::agent {

Result<std::string> node_address(const std::string& in_map, const comm::HostNetwork& network) {
  auto chosen = comm::choose_address(comm::NetworkOptions{.address = in_map}, network);
  if (!chosen) return std::move(chosen).error().with_context("the host's address in the map");
  return chosen->address;
}

}  // namespace lockstep::agent
