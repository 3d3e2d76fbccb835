#include "comm/fabric/address/network_options.h"

#include "net/socket.h"

namespace lockstep::comm {
namespace {

std::string setting(const Environment& environment, const char* name) {
  const auto found = environment.find(name);
  return found == environment.end() ? std::string() : found->second;
}

}  // namespace

Result<NetworkOptions> network_options_from_environment(const Environment& environment) {
  NetworkOptions options;
  if (auto provider = setting(environment, "LOCKSTEP_FABRIC_PROVIDER"); !provider.empty())
    options.provider = std::move(provider);
  options.interface = setting(environment, "LOCKSTEP_INTERFACE");
  options.address = setting(environment, "LOCKSTEP_ADDRESS");
  if (!options.interface.empty() && !options.address.empty())
    return Error{Code::invalid,
                 format("LOCKSTEP_INTERFACE is {} and LOCKSTEP_ADDRESS is {}: set one of them",
                        options.interface, options.address)};
  if (const auto ports = setting(environment, "LOCKSTEP_PORT_RANGE"); !ports.empty()) {
    auto range = parse_port_range(ports);
    if (!range) return std::move(range).error().with_context("LOCKSTEP_PORT_RANGE");
    options.ports = *range;
  }
  options.connection_timeout = TRY(net::connection_timeout_from(environment));
  if (const auto rendezvous = setting(environment, "LOCKSTEP_RENDEZVOUS"); !rendezvous.empty())
    options.rendezvous_host = TRY(net::parse_host_port(rendezvous)).host;
  else
    options.rendezvous_host = setting(environment, "MASTER_ADDR");
  return options;
}

}  // namespace lockstep::comm
