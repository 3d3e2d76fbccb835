// The sources of the devices of a run: GPUs of NVIDIA by NVML, and of AMD by the files of its
// driver.
//
// A metric's name begins with the device, by its number on the machine: device0/power_watts.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "platform/telemetry/source.h"

namespace lockstep::telemetry {

struct GpuOfRun {
  int number = 0;      // on the machine, in the order of PCI addresses
  std::string uuid{};  // empty: unknown

  bool operator==(const GpuOfRun&) const = default;
};

// A GPU that its driver has lost has the metric deviceN/lost, 1, and no others. `library` is as for
// dlopen(). Without it, or without a driver: nullptr.
std::unique_ptr<Source> nvml_source(const std::vector<GpuOfRun>& gpus, const std::string& library);

// The cards of the driver amdgpu, by PCI address.
std::unique_ptr<Source> amd_source(const std::vector<GpuOfRun>& gpus,
                                   const std::filesystem::path& root);

// One of NVIDIA if there is NVML, else one of AMD. Loading NVML may take seconds.
Sources device_sources(const std::vector<GpuOfRun>& gpus, const std::string& library,
                       const std::filesystem::path& root = "/");

}  // namespace lockstep::telemetry
