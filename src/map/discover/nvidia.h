// The NVIDIA GPUs that this process can open, without NVML: those that the driver lists and the
// container exposes. A card that is only on the PCI bus (no driver, or withheld) is not usable.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace lockstep::map {

struct NvidiaGpu {
  std::string pci;   // "0000:01:00.0"; empty: the driver's list is not accessible
  int minor = 0;     // of /dev/nvidia<minor>
  std::string uuid;  // "GPU-..."; empty: unknown
  bool mig = false;  // divided into MIG slices, each of which CUDA counts as a device
  int number = 0;    // CUDA's, under CUDA_DEVICE_ORDER=PCI_BUS_ID
};

// In the order of PCI addresses, which is that of the numbers. Cards in MIG mode are among them.
// `root` is "/", or a folder that a test made.
std::vector<NvidiaGpu> usable_nvidia_gpus(const std::filesystem::path& root = "/");

}  // namespace lockstep::map
