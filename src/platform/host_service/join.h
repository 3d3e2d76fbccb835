// Joins this host to a cluster: gets a credential for its service with a join token.
#pragma once

#include <string>
#include <string_view>

#include "base/result.h"
#include "platform/host_service/service_home.h"

namespace lockstep::host_service {

// `url`: the daemon's, with the fingerprint of its certificate unless it is loopback. A call whose
// answer was lost is repeated. `address`: see Membership. Errors do not have the token.
Result<Membership> join_cluster(const std::string& url, std::string_view token,
                                const std::string& address);

}  // namespace lockstep::host_service
