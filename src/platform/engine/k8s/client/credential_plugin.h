// Calls a credential plugin of a kubeconfig file.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "base/result.h"
#include "base/units.h"
#include "platform/engine/k8s/client/cluster_access.h"

namespace lockstep::engine {

struct PluginCredential {
  std::string token;
  std::string certificate, key;
  std::optional<Time> expires;
};

// Takes a minute at most. `authority` is what the access has, for a plugin that wants the cluster.
Result<PluginCredential> call_plugin(const ClusterAccess& access, const std::string& authority);

// The ExecCredential that a plugin printed. Its errors do not have the output, which has secrets.
Result<PluginCredential> parse_credential(std::string_view output, const std::string& api_version);

}  // namespace lockstep::engine
