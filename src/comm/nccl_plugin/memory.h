// MemoryCache: the memory that NCCL has registered with a port.
//
// NCCL registers a buffer whole and later, for each operation, parts of it. A part of a registered
// range takes the registration of that range. A registration ends with its last user, thus before
// NCCL frees the memory: none goes stale.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "comm/nccl_plugin/endpoint.h"

namespace lockstep::comm::nccl {

class MemoryCache {
 public:
  // Whole pages of a host's memory, because the provider pins pages.
  struct Region {
    std::uintptr_t begin = 0;
    std::uintptr_t end = 0;
    std::size_t users = 0;
    bool on_gpu = false;
    std::unique_ptr<Registration> registration;  // null where the provider needs none
  };

  // Memory of the host.
  Result<Region*> add_user(TaggedEndpoint& endpoint, void* data, std::size_t bytes);
  // Memory of a GPU.
  Result<Region*> add_user(TaggedEndpoint& endpoint, void* data, std::size_t bytes,
                           const DmaBuf& buffer);
  // Code::invalid for a region that is not in use.
  Result<void> remove_user(const Region* region);
  std::size_t size() const { return regions_.size(); }

 private:
  Region* find_user(std::uintptr_t begin, std::uintptr_t end, bool on_gpu);

  std::vector<std::unique_ptr<Region>> regions_;
};

}  // namespace lockstep::comm::nccl
