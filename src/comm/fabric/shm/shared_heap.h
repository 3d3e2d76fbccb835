// SharedHeap: memory that this process shares with the other ranks of its host. It is one memfd of
// the size of the host's memory, whose pages are allocated on first access. Peers map all of it, so
// a buffer is identified by its offset and needs no registration. It exists as long as the process;
// freed memory returns to the system. Safe to use from several threads.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>

#include <sys/types.h>

#include "base/mutex.h"
#include "base/os/fd.h"
#include "base/result.h"
#include "base/units.h"
#include "comm/fabric/shm/mapping.h"

namespace lockstep::comm {

// Null unless all bytes are in the mapping.
std::byte* address_at_offset(const SharedMapping& mapping, std::uint64_t offset, std::size_t bytes);

class SharedHeap {
 public:
  // The heap of this process, created on first use; a forked child gets its own.
  static Result<std::shared_ptr<SharedHeap>> for_this_process();
  // For tests. size: at least a page.
  static Result<std::shared_ptr<SharedHeap>> create(Bytes size);

  // Page-aligned, zeroed, on the NUMA node of the calling thread's processor. Error exhausted when
  // no free range is large enough. size > 0.
  Result<std::span<std::byte>> allocate(Bytes size);
  // memory: a result of allocate().
  void free(std::span<std::byte> memory);
  // The same, but the range is not allocated again: others may still write to it.
  void discard(std::span<std::byte> memory);

  // The offset of the bytes in the heap; nullopt if they are not all in it.
  std::optional<std::uint64_t> offset_of(const std::byte* data, std::size_t bytes) const;
  std::byte* at(std::uint64_t offset, std::size_t bytes) const {
    return address_at_offset(*mapping_, offset, bytes);
  }
  const Fd& memfd() const { return memfd_; }

 private:
  SharedHeap(Fd memfd, std::shared_ptr<SharedMapping> mapping);
  void punch_hole(std::size_t offset, std::size_t bytes);

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
    return address_at_offset(*mapping_, offset, bytes);
  }

 private:
  explicit PeerHeap(std::shared_ptr<SharedMapping> mapping) : mapping_(std::move(mapping)) {}
  std::shared_ptr<SharedMapping> mapping_;  // shared by the groups of this process
};

}  // namespace lockstep::comm
