// Heap: memory that this process lends to the other ranks of its host. One memfd, as large as the
// host's memory, of which nothing is used until it is touched; peers map it whole, so that a buffer
// is named by its offset and needs no registration. It lives as long as the process; what is freed
// goes back to the system. Safe to use from several threads.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>

#include <sys/types.h>

#include "base/fd.h"
#include "base/mutex.h"
#include "base/result.h"
#include "base/units.h"
#include "comm/fabric/shm/mapping.h"

namespace lockstep {

// Null unless all of it lies in the mapping.
std::byte* at_offset(const SharedMapping& mapping, std::uint64_t offset, std::size_t bytes);

class Heap {
 public:
  // This process's, made when it is first asked for; a forked child gets one of its own.
  static Result<std::shared_ptr<Heap>> of_process();
  // For tests. At least a page.
  static Result<std::shared_ptr<Heap>> create(Bytes size);

  // Page-aligned, zeroed, on the NUMA node of the processor that the caller runs on. Error
  // exhausted when no free range is large enough. size > 0.
  Result<std::span<std::byte>> allocate(Bytes size);
  // What allocate() gave.
  void free(std::span<std::byte> memory);

  // Where the bytes lie in the heap; nothing when they are not all in it.
  std::optional<std::uint64_t> offset_of(const std::byte* data, std::size_t bytes) const;
  std::byte* at(std::uint64_t offset, std::size_t bytes) const {
    return at_offset(*mapping_, offset, bytes);
  }
  const Fd& memfd() const { return memfd_; }

 private:
  Heap(Fd memfd, std::shared_ptr<SharedMapping> mapping);

  const pid_t pid_;
  const Fd memfd_;
  const std::shared_ptr<SharedMapping> mapping_;  // shared with peers that are threads
  Mutex mutex_;                                   // guards what follows
  std::map<std::size_t, std::size_t> free_ LS_GUARDED_BY(mutex_);  // offset to bytes
};

// A peer's heap, as this process sees it.
class PeerHeap {
 public:
  static Result<PeerHeap> map(const Fd& memfd);
  std::byte* at(std::uint64_t offset, std::size_t bytes) const {
    return at_offset(*mapping_, offset, bytes);
  }

 private:
  explicit PeerHeap(std::shared_ptr<SharedMapping> mapping) : mapping_(std::move(mapping)) {}
  std::shared_ptr<SharedMapping> mapping_;  // shared by the groups of this process
};

}  // namespace lockstep
