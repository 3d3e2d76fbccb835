#include "platform/host_service/facts.h"

#include "comm/fabric/address/link_speed.h"
#include "map/query.h"
#include "net/http/url.h"

namespace lockstep::host_service {

std::string address_towards(const comm::HostNetwork& network, const std::string& daemon_url) {
  if (const auto url = net::parse_url(daemon_url))
    if (const auto daemon = network.resolve(url->host))
      if (const auto own = network.source_address_for(*daemon); own && !net::is_loopback(*own))
        return *own;
  for (const comm::InterfaceAddress& one : network.local_addresses())
    if (one.up && !one.loopback && one.address.find('%') == std::string::npos) return one.address;
  return "127.0.0.1";
}

std::optional<Bandwidth> speed_of_address(const comm::HostNetwork& network,
                                          const std::string& address,
                                          const std::filesystem::path& interfaces) {
  const std::string numeric = network.resolve(address).value_or(address);
  for (const comm::InterfaceAddress& one : network.local_addresses())
    if (one.address == numeric && !one.loopback) return comm::link_speed(one.interface, interfaces);
  return std::nullopt;
}

Result<map::Host> host_facts(const std::string& id, const std::string& address,
                             const map::GpuSources& gpus, const comm::HostNetwork& network) {
  const map::ClusterMap machine = TRY(map::discover_local(gpus));
  map::Host host = *map::hosts(machine).front();
  host.id = id;
  host.name.clear();
  host.address = address;
  host.to_leaf.bandwidth = speed_of_address(network, address);
  return host;
}

}  // namespace lockstep::host_service
