#include "platform/telemetry/host_sources.h"

namespace lockstep::telemetry {

Sources host_sources(const std::filesystem::path& root) {
  Sources sources;
  for (const auto make : {cpu_source, memory_source, pressure_source, network_source, disk_source,
                          power_source, cgroup_source})
    sources.push_back(make(root));
  return sources;
}

}  // namespace lockstep::telemetry
