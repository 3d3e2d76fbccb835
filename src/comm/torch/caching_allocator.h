// CachingAllocator: the memory of allocateTensor(), kept for the next call when its tensor is
// destroyed.
//
// A destroyed Buffer returns to the system, and every rank that accesses the next one faults in and
// zeroes each page again. FSDP2, which allocates its buffers in each step, spent more time on that
// than on communication. Here a buffer of a size that was allocated before is reused unchanged.
// Cached and allocated memory together never exceed the maximum that was allocated at once. Safe to
// use from several threads; tensors may outlive it and every group.
#pragma once

#include <cstddef>
#include <list>
#include <memory>

#include <sys/types.h>

#include "base/mutex.h"
#include "base/result.h"
#include "base/units.h"
#include "comm/collective/buffer.h"

namespace lockstep::comm {

class CachingAllocator : public std::enable_shared_from_this<CachingAllocator> {
 public:
  // The allocator of this process. A forked child, whose copy of it is its parent's memory, gets
  // its own.
  static std::shared_ptr<CachingAllocator> for_this_process();
  static std::shared_ptr<CachingAllocator> create();

  // Not zeroed. It is returned to the cache when its last owner is destroyed.
  Result<std::shared_ptr<Buffer>> allocate(Bytes size);

  Bytes cached_bytes();

 private:
  CachingAllocator();
  Result<Buffer> acquire_buffer(Bytes size);
  void release_buffer(Buffer buffer);
  // Removes the buffers that were cached longest, until the cache is at most this large. The caller
  // destroys them without the lock.
  std::list<Buffer> evict_above(Bytes limit) LS_REQUIRES(mutex_);

  const pid_t pid_;
  Mutex mutex_;                                     // guards what follows
  std::list<Buffer> cached_ LS_GUARDED_BY(mutex_);  // the last released one is first
  Bytes cached_bytes_ LS_GUARDED_BY(mutex_) = Bytes(0);
  Bytes allocated_bytes_ LS_GUARDED_BY(mutex_) = Bytes(0);
  Bytes allocated_bytes_max_ LS_GUARDED_BY(mutex_) = Bytes(0);
};

}  // namespace lockstep::comm
