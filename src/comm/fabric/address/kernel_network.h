// KernelNetwork: the HostNetwork of this machine, from getifaddrs, the resolver and the routes.
#pragma once

#include "comm/fabric/address/choose_address.h"

namespace lockstep::comm {

class KernelNetwork : public HostNetwork {
 public:
  std::vector<InterfaceAddress> local_addresses() const override;
  std::optional<std::string> resolve(const std::string& host) const override;
  std::optional<std::string> source_address_for(const std::string& address) const override;
};

}  // namespace lockstep::comm
