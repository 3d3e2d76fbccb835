#include "platform/agent/ranks/rank_binding.h"

#include <string>

#include "base/format.h"
#include "base/log.h"
#include "map/discover/discover.h"
#include "map/map.h"

namespace lockstep::agent {
namespace {

Result<bool> wants_binding(const host::LaunchSpec& launch) {
  const auto set = launch.env.find(std::string(kBindVariable));
  if (set == launch.env.end() || set->second.empty() || set->second == "island") return true;
  if (set->second == "none") return false;
  return Error{Code::invalid,
               format("{} is '{}'; write island or none", kBindVariable, set->second)};
}

// For each rank the devices whose processors it may use. An island of GPUs is an NVLink domain,
// which may have GPUs of several NUMA nodes, so only a rank's own GPU counts.
std::vector<std::vector<int>> near_devices(const host::LaunchSpec& launch) {
  if (!launch.gpus) return launch.islands;
  std::vector<std::vector<int>> own;
  for (const int device : launch.devices) own.push_back({device});
  return own;
}

}  // namespace

Result<std::vector<std::vector<int>>> rank_processors(const host::LaunchSpec& launch) {
  const std::vector<std::vector<int>> unbound(launch.devices.size());
  const auto sets = near_devices(launch);
  if (!TRY(wants_binding(launch)) || sets.size() != unbound.size()) return unbound;
  auto bound =
      map::processors_of_each(launch.gpus ? map::DeviceKind::gpu : map::DeviceKind::core, sets);
  if (!bound) {
    LS_LOG(warning, "ranks are not bound to processors near their devices: {}",
           bound.error().message);
    return unbound;
  }
  for (std::size_t i = 0; i < bound->size(); ++i)
    LS_LOG(info, "rank {} runs on processors {}", launch.first_rank + static_cast<int>(i),
           joined((*bound)[i], ","));
  return bound;
}

}  // namespace lockstep::agent
