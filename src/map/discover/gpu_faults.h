// The faults of this machine's NVIDIA GPUs that the driver knows of.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "map/discover/discover.h"

namespace lockstep::map {

// One line for each fault, with the card: "GPU 3 (GPU-6ca3...) has 2 memory errors ...".
std::vector<std::string> gpu_faults(const GpuSources& sources);

// "580.65.06"; nullopt: no driver is loaded.
std::optional<std::string> nvidia_driver_version(const std::filesystem::path& root = "/");

}  // namespace lockstep::map
