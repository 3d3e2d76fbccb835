#include "platform/telemetry/nvml_library.h"

#include <dlfcn.h>

namespace lockstep::telemetry {
namespace {

template <class Function>
void find(void* library, const char* name, Function& function) {
  function = reinterpret_cast<Function>(::dlsym(library, name));
}

NvmlCalls calls_of(void* library) {
  NvmlCalls found;
  find(library, "nvmlInit_v2", found.init);
  find(library, "nvmlShutdown", found.shutdown);
  find(library, "nvmlDeviceGetHandleByUUID", found.by_uuid);
  find(library, "nvmlDeviceGetHandleByIndex_v2", found.by_index);
  find(library, "nvmlDeviceGetUtilizationRates", found.utilization);
  find(library, "nvmlDeviceGetMemoryInfo", found.memory);
  find(library, "nvmlDeviceGetPowerUsage", found.power);
  find(library, "nvmlDeviceGetEnforcedPowerLimit", found.power_limit);
  find(library, "nvmlDeviceGetTotalEnergyConsumption", found.energy);
  find(library, "nvmlDeviceGetTemperature", found.temperature);
  find(library, "nvmlDeviceGetClockInfo", found.clock);
  find(library, "nvmlDeviceGetTotalEccErrors", found.ecc_errors);
  find(library, "nvmlDeviceGetPcieThroughput", found.pcie_throughput);
  find(library, "nvmlDeviceGetPcieReplayCounter", found.pcie_replays);
  find(library, "nvmlDeviceGetFieldValues", found.fields);
  find(library, "nvmlDeviceGetCurrentClocksEventReasons", found.clocks_event_reasons);
  if (found.clocks_event_reasons == nullptr)  // its name before driver 535
    find(library, "nvmlDeviceGetCurrentClocksThrottleReasons", found.clocks_event_reasons);
  find(library, "nvmlEventSetCreate", found.make_events);
  find(library, "nvmlDeviceRegisterEvents", found.watch_events);
  find(library, "nvmlEventSetWait_v2", found.next_event);
  return found;
}

}  // namespace

void NvmlLibrary::Closer::operator()(void* library) const { ::dlclose(library); }

std::unique_ptr<NvmlLibrary> NvmlLibrary::open(const std::string& name) {
  Handle handle(::dlopen(name.c_str(), RTLD_NOW | RTLD_LOCAL));
  if (!handle) return nullptr;
  const NvmlCalls calls = calls_of(handle.get());
  if (calls.init == nullptr || calls.shutdown == nullptr || calls.by_index == nullptr ||
      calls.init() != kNvmlSuccess)
    return nullptr;
  return std::unique_ptr<NvmlLibrary>(new NvmlLibrary(std::move(handle)));
}

NvmlLibrary::NvmlLibrary(Handle handle)
    : handle_(std::move(handle)), calls_(calls_of(handle_.get())) {}

NvmlLibrary::~NvmlLibrary() { calls_.shutdown(); }

}  // namespace lockstep::telemetry
