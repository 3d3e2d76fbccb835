// How parts of a group get a backend, for backends whose own split() cannot be used: NCCL's keeps
// the options of the whole group and writes into them, so a second part changes the first. Python
// registers ProcessGroupNCCL here, because a build of torch for the CPU does not know its class.
#pragma once

#include <chrono>
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

namespace lockstep::train {

// A new group, in which this process is `rank` of `size`.
struct BackendRequest {
  c10::intrusive_ptr<c10d::Store> store;  // for this group alone
  int rank;
  int size;
  std::string name;
  std::vector<std::uint64_t> global_ranks;
  std::chrono::milliseconds timeout;
  c10::Device device;
};
// May throw. Options of the new backend are its own.
using BackendFactory = std::function<c10::intrusive_ptr<c10d::Backend>(const BackendRequest&)>;

// For backends with this getBackendName(). Replaces the factory before.
void register_backend_factory(const std::string& backend_name, BackendFactory factory);
// Null if there is none.
BackendFactory find_backend_factory(const std::string& backend_name);

}  // namespace lockstep::train
