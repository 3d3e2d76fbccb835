#include "comm/device/device_backend.h"

#include <map>
#include <utility>

#include <torch/csrc/distributed/c10d/Backend.hpp>
#include <torch/csrc/distributed/c10d/Store.hpp>

#include "base/mutex.h"

namespace lockstep::comm {
namespace {

struct DeviceBackends {
  Mutex mutex;  // guards what follows
  std::map<c10::DeviceType, DeviceBackend> by_type LS_GUARDED_BY(mutex);
};

// Never destroyed: a backend may hold objects of an interpreter that has ended.
DeviceBackends& device_backends() {
  static auto* all = new DeviceBackends;
  return *all;
}

}  // namespace

void register_device_backend(c10::DeviceType type, DeviceBackend backend) {
  const Lock lock(device_backends().mutex);
  device_backends().by_type[type] = std::move(backend);
}

std::optional<DeviceBackend> find_device_backend(c10::DeviceType type) {
  const Lock lock(device_backends().mutex);
  const auto found = device_backends().by_type.find(type);
  if (found == device_backends().by_type.end()) return std::nullopt;
  return found->second;
}

std::vector<c10::DeviceType> device_types_with_backends() {
  const Lock lock(device_backends().mutex);
  std::vector<c10::DeviceType> types;
  for (const auto& [type, backend] : device_backends().by_type) types.push_back(type);
  return types;
}

}  // namespace lockstep::comm
