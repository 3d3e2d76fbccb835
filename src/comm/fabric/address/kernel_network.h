// KernelNetwork: the HostNetwork of this machine, as getifaddrs, the resolver and the routes say.
#pragma once

#include "comm/fabric/address/own_address.h"

namespace lockstep {

class KernelNetwork : public HostNetwork {
 public:
  std::vector<OwnAddress> own_addresses() const override;
  std::optional<std::string> resolved(const std::string& host) const override;
  std::optional<std::string> source_towards(const std::string& address) const override;
};

}  // namespace lockstep
