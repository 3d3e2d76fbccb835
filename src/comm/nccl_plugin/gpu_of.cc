#include "comm/nccl_plugin/gpu_of.h"

#include <cstdint>

#include <dlfcn.h>

namespace lockstep::comm::nccl {
namespace {

constexpr int kDeviceOrdinal = 9;  // CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL
using GetAttribute = int (*)(void* value, int attribute, std::uint64_t address);

// NCCL has loaded libcuda; the plugin never loads it.
GetAttribute find_get_attribute() {
  void* const library = ::dlopen("libcuda.so.1", RTLD_NOW | RTLD_NOLOAD);
  if (library == nullptr) return nullptr;
  return reinterpret_cast<GetAttribute>(::dlsym(library, "cuPointerGetAttribute"));
}

}  // namespace

int gpu_of(const void* data) {
  static const GetAttribute get_attribute = find_get_attribute();
  int device = 0;
  const auto address = reinterpret_cast<std::uintptr_t>(data);
  if (get_attribute == nullptr || get_attribute(&device, kDeviceOrdinal, address) != 0) return 0;
  return device;
}

}  // namespace lockstep::comm::nccl
