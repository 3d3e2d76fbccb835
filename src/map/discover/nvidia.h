// The NVIDIA GPUs that this process can use, without NVML: those that the driver lists and the
// container exposes. A card that is only on the PCI bus (no driver, or withheld) is not usable.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace lockstep::map {

struct NvidiaGpu {
  std::string pci;  // "0000:01:00.0"; empty: the driver's list is not accessible
  int minor = 0;    // of /dev/nvidia<minor>
};

// In the order of PCI addresses, so that positions are CUDA's numbers under
// CUDA_DEVICE_ORDER=PCI_BUS_ID. `root` is "/", or a folder that a test made.
std::vector<NvidiaGpu> usable_nvidia_gpus(const std::filesystem::path& root = "/");

}  // namespace lockstep::map
