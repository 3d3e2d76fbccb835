#include "comm/nccl_plugin/memory.h"

#include <algorithm>

#include <unistd.h>

namespace lockstep::comm::nccl {

// Another user of a region that has all of this range; null: there is none.
MemoryCache::Region* MemoryCache::find_user(std::uintptr_t begin, std::uintptr_t end, bool on_gpu) {
  const auto found = std::ranges::find_if(regions_, [&](const auto& region) {
    return region->on_gpu == on_gpu && region->begin <= begin && end <= region->end;
  });
  if (found == regions_.end()) return nullptr;
  ++(*found)->users;
  return found->get();
}

Result<MemoryCache::Region*> MemoryCache::add_user(TaggedEndpoint& endpoint, void* data,
                                                   std::size_t bytes, const DmaBuf& buffer) {
  const auto begin = reinterpret_cast<std::uintptr_t>(data);
  if (auto* const known = find_user(begin, begin + bytes, true)) return known;
  auto region = std::make_unique<Region>(Region{begin, begin + bytes, 1, true, nullptr});
  region->registration = TRY(endpoint.register_dma_buf(data, bytes, buffer));
  regions_.push_back(std::move(region));
  return regions_.back().get();
}

Result<MemoryCache::Region*> MemoryCache::add_user(TaggedEndpoint& endpoint, void* data,
                                                   std::size_t bytes) {
  static const auto page = static_cast<std::uintptr_t>(::sysconf(_SC_PAGESIZE));
  const auto first = reinterpret_cast<std::uintptr_t>(data);
  const auto begin = first / page * page;
  const auto end = (first + std::max<std::size_t>(bytes, 1) + page - 1) / page * page;
  if (auto* const known = find_user(begin, end, false)) return known;
  auto region = std::make_unique<Region>(Region{begin, end, 1, false, nullptr});
  if (endpoint.needs_registration())
    region->registration =
        TRY(endpoint.register_memory(reinterpret_cast<void*>(begin), end - begin));
  regions_.push_back(std::move(region));
  return regions_.back().get();
}

Result<void> MemoryCache::remove_user(const Region* region) {
  const auto found = std::ranges::find(regions_, region, &std::unique_ptr<Region>::get);
  if (found == regions_.end()) return Error{Code::invalid, "the memory is not registered"};
  if (--(*found)->users == 0) regions_.erase(found);
  return {};
}

}  // namespace lockstep::comm::nccl
