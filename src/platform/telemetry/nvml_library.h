// The functions of NVML that read a device while a run uses it, from NVIDIA's NVML API Reference
// Guide (docs.nvidia.com/deploy/nvml-api). The library is loaded at run time, with declarations of
// our own, so that one build serves machines with and without a driver. Each function is looked up
// alone: one that an old driver lacks is null, and costs only its own reading.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <string>

namespace lockstep::telemetry {

using NvmlDevice = struct NvmlDeviceTag*;
using NvmlEventSet = struct NvmlEventSetTag*;
using Count = unsigned long long;

// nvmlReturn_t
inline constexpr int kNvmlSuccess = 0;
inline constexpr int kNvmlGpuIsLost = 15;

struct NvmlUtilization {
  unsigned gpu, memory;
};
struct NvmlMemory {
  Count total, free, used;
};
// nvmlFieldValue_t
struct NvmlField {
  unsigned id = 0, scope = 0;
  long long timestamp = 0, latency = 0;
  int type = 0;    // of the value: 0 double, 1 unsigned, 2 and 3 unsigned long (long), 5 int
  int status = 0;  // of this field alone
  std::array<unsigned char, 8> value{};
};
static_assert(sizeof(NvmlField) == 40);
// nvmlEventData_t
struct NvmlEvent {
  NvmlDevice device = nullptr;
  Count type = 0, data = 0;
  unsigned gpu_instance = 0, compute_instance = 0;
};

struct NvmlCalls {
  int (*init)() = nullptr;
  int (*shutdown)() = nullptr;
  int (*by_uuid)(const char* uuid, NvmlDevice*) = nullptr;
  int (*by_index)(unsigned index, NvmlDevice*) = nullptr;
  int (*utilization)(NvmlDevice, NvmlUtilization*) = nullptr;
  int (*memory)(NvmlDevice, NvmlMemory*) = nullptr;
  int (*power)(NvmlDevice, unsigned* milliwatts) = nullptr;
  int (*power_limit)(NvmlDevice, unsigned* milliwatts) = nullptr;
  int (*energy)(NvmlDevice, Count* millijoules) = nullptr;
  int (*temperature)(NvmlDevice, int sensor, unsigned* celsius) = nullptr;
  int (*clock)(NvmlDevice, int kind, unsigned* megahertz) = nullptr;
  int (*ecc_errors)(NvmlDevice, int kind, int counter, Count*) = nullptr;
  // Measures for 20 ms, so it takes as long.
  int (*pcie_throughput)(NvmlDevice, int direction, unsigned* kilobytes_per_second) = nullptr;
  int (*pcie_replays)(NvmlDevice, unsigned*) = nullptr;
  int (*fields)(NvmlDevice, int count, NvmlField*) = nullptr;
  int (*clocks_event_reasons)(NvmlDevice, Count* bits) = nullptr;
  int (*make_events)(NvmlEventSet*) = nullptr;
  int (*watch_events)(NvmlDevice, Count types, NvmlEventSet) = nullptr;
  int (*next_event)(NvmlEventSet, NvmlEvent*, unsigned wait_ms) = nullptr;
};

class NvmlLibrary {
 public:
  // `name` is as for dlopen(). nullptr: there is no such library, or it does not start.
  static std::unique_ptr<NvmlLibrary> open(const std::string& name);
  ~NvmlLibrary();
  NvmlLibrary(const NvmlLibrary&) = delete;
  NvmlLibrary& operator=(const NvmlLibrary&) = delete;

  const NvmlCalls& call() const { return calls_; }

 private:
  struct Closer {
    void operator()(void* library) const;
  };
  using Handle = std::unique_ptr<void, Closer>;
  explicit NvmlLibrary(Handle handle);

  const Handle handle_;
  NvmlCalls calls_;
};

}  // namespace lockstep::telemetry
