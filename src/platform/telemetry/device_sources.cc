#include "platform/telemetry/device_sources.h"

namespace lockstep::telemetry {

Sources device_sources(const std::vector<GpuOfRun>& gpus, const std::string& library,
                       const std::filesystem::path& root) {
  Sources sources;
  if (gpus.empty()) return sources;
  auto nvml = nvml_source(gpus, library);
  sources.push_back(nvml ? std::move(nvml) : amd_source(gpus, root));
  return sources;
}

}  // namespace lockstep::telemetry
