// NVML, the driver's library, describes GPUs: memory, MIG mode and NVLinks. It is loaded at run
// time, with declarations of our own, so that one build serves machines with and without a driver.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/units.h"

namespace lockstep::map {

inline constexpr const char* kNvmlLibrary = "libnvidia-ml.so.1";

struct NvmlGpu {
  std::string uuid;  // empty: unknown
  std::optional<Bytes> memory;
  bool mig = false;
  // PCI addresses, as in NvidiaGpu, at the other ends of its active NVLinks: GPUs or switches.
  std::vector<std::string> links;
  // The errors of its memory since the driver was loaded that were not corrected. Without ECC, or
  // without an answer: unknown.
  std::optional<std::int64_t> uncorrected_errors = {};
  bool lost = false;  // it fell off the bus, and works again only after a reset or a reboot
};

// One for each of these PCI addresses. Without NVML, or without an answer for a card, its values
// are unknown. `library` is as for dlopen().
std::vector<NvmlGpu> query_nvml(const std::vector<std::string>& pci,
                                const std::string& library = kNvmlLibrary);

// For each GPU the number of its NVLink domain: all that its links reach, directly or through
// switches. nullopt if it reaches no other of them.
std::vector<std::optional<int>> nvlink_domains(const std::vector<std::string>& pci,
                                               const std::vector<NvmlGpu>& gpus);

}  // namespace lockstep::map
