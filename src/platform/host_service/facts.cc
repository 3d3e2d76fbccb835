#include "platform/host_service/facts.h"

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

Result<map::Host> host_facts(const std::string& id, const std::string& address,
                             const map::GpuSources& gpus) {
  const map::ClusterMap machine = TRY(map::discover_local(gpus));
  map::Host host = *map::hosts(machine).front();
  host.id = id;
  host.name.clear();
  host.address = address;
  return host;
}

}  // namespace lockstep::host_service
