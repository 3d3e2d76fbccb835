// Which backend serves the tensors of a device: ProcessGroupNCCL for GPUs. Python registers it,
// because a build of torch for the CPU does not know its class; tests register their own.
//
// Our backend makes one of its own group for the first tensor of a device. The training engine
// makes one for a part of a group, instead of the backend's split(): NCCL's keeps the options of
// the whole group and writes into them, so a second part changes the first.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include <c10/core/Device.h>
#include <c10/util/intrusive_ptr.h>

namespace c10d {
class Backend;
class Store;
}  // namespace c10d

namespace lockstep::comm {

// A new group, in which this process is `rank` of `size`.
struct DeviceBackendRequest {
  c10::intrusive_ptr<c10d::Store> store;  // for this group alone
  int rank;
  int size;
  std::string name;
  std::vector<std::uint64_t> global_ranks;
  std::chrono::milliseconds timeout;
  c10::Device device;
  bool recoverable = false;  // the process goes on after a failure of the group
};

struct DeviceBackend {
  std::string name;  // its getBackendName()
  // May throw. Options of the new backend are its own.
  std::function<c10::intrusive_ptr<c10d::Backend>(const DeviceBackendRequest&)> create;
};

// Replaces the one before.
void register_device_backend(c10::DeviceType type, DeviceBackend backend);
std::optional<DeviceBackend> find_device_backend(c10::DeviceType type);
// The types that have one.
std::vector<c10::DeviceType> device_types_with_backends();

}  // namespace lockstep::comm
