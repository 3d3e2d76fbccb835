// Asks an API server what the daemon may do there.
#pragma once

#include <string>
#include <vector>

#include "base/result.h"
#include "platform/engine/k8s/api_server.h"

namespace lockstep::engine {

// "v1.30.2".
Result<std::string> k8s_version(ApiServer& api);

// The rights of k8s::daemon_rights() that the server does not grant, such as "create pods" and
// "list nodes in the whole cluster".
Result<std::vector<std::string>> missing_rights(ApiServer& api, const std::string& in_namespace);
// Those in the namespace alone: "create pods in ml".
Result<std::vector<std::string>> missing_rights_in(ApiServer& api, const std::string& in_namespace);

}  // namespace lockstep::engine
