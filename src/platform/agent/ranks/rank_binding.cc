#include "platform/agent/ranks/rank_binding.h"

#include <string>

#include "base/format.h"
#include "base/log.h"
#include "map/discover/discover.h"
#include "map/map.h"

namespace lockstep::agent {
namespace {

Result<bool> wants_binding(const engine::LaunchSpec& launch) {
  const auto set = launch.env.find(std::string(kBindVariable));
  if (set == launch.env.end() || set->second.empty() || set->second == "island") return true;
  if (set->second == "none") return false;
  return Error{Code::invalid,
               format("{} is '{}'; write island or none", kBindVariable, set->second)};
}

}  // namespace

Result<std::vector<std::vector<int>>> rank_processors(const engine::LaunchSpec& launch) {
  const std::vector<std::vector<int>> unbound(launch.devices.size());
  if (!TRY(wants_binding(launch)) || launch.islands.size() != unbound.size()) return unbound;
  auto bound = unbound;
  for (std::size_t i = 0; i < bound.size(); ++i) {
    if (i > 0 && launch.islands[i] == launch.islands[i - 1]) {
      bound[i] = bound[i - 1];  // looking at a machine takes some 10 ms
      continue;
    }
    auto found = map::processors_of(launch.gpus ? map::DeviceKind::gpu : map::DeviceKind::core,
                                    launch.islands[i]);
    if (!found) {
      LS_LOG(warning, "ranks are not bound to islands of the map: {}", found.error().message);
      return unbound;
    }
    bound[i] = *std::move(found);
  }
  for (std::size_t i = 0; i < bound.size(); ++i)
    LS_LOG(info, "rank {} runs on processors {}", launch.first_rank + static_cast<int>(i),
           joined(bound[i], ","));
  return bound;
}

}  // namespace lockstep::agent
