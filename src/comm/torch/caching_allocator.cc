#include "comm/torch/caching_allocator.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include <unistd.h>

namespace lockstep::comm {

CachingAllocator::CachingAllocator() : pid_(::getpid()) {}

std::shared_ptr<CachingAllocator> CachingAllocator::create() {
  return std::shared_ptr<CachingAllocator>(new CachingAllocator());
}

std::shared_ptr<CachingAllocator> CachingAllocator::for_this_process() {
  static auto* mutex = new Mutex;
  static auto* own = new std::shared_ptr<CachingAllocator>;  // tensors may outlive main
  Lock lock(*mutex);
  if (!*own || (*own)->pid_ != ::getpid()) *own = create();
  return *own;
}

Result<std::shared_ptr<Buffer>> CachingAllocator::allocate(Bytes size) {
  auto buffer = TRY(acquire_buffer(size));
  // Shared, because a tensor's deleter must be copyable; the memory keeps this alive until it is
  // released.
  return std::shared_ptr<Buffer>(new Buffer(std::move(buffer)),
                                 [self = shared_from_this()](Buffer* allocated) {
                                   self->release_buffer(std::move(*allocated));
                                   delete allocated;
                                 });
}

Result<Buffer> CachingAllocator::acquire_buffer(Bytes size) {
  std::list<Buffer> dropped;
  {
    Lock lock(mutex_);
    allocated_bytes_ += size;
    allocated_bytes_max_ = std::max(allocated_bytes_max_, allocated_bytes_);
    const auto found = std::find_if(cached_.begin(), cached_.end(),
                                    [&](const Buffer& each) { return each.size() == size; });
    if (found != cached_.end()) {
      Buffer buffer = std::move(*found);
      cached_.erase(found);
      cached_bytes_ -= size;
      return buffer;
    }
    dropped = evict_above(allocated_bytes_max_ - allocated_bytes_);
  }
  dropped.clear();
  auto made = Buffer::create(size);
  if (!made) {
    Lock lock(mutex_);
    allocated_bytes_ -= size;
  }
  return made;
}

void CachingAllocator::release_buffer(Buffer buffer) {
  const bool of_parent = ::getpid() != pid_;  // a forked child's copy of it
  if (of_parent || buffer.size() == Bytes(0)) return;
  std::list<Buffer> dropped;
  Lock lock(mutex_);
  allocated_bytes_ -= buffer.size();
  cached_bytes_ += buffer.size();
  cached_.push_front(std::move(buffer));
  // The lock is released before `dropped`, declared first, is destroyed and returns its memory to
  // the system.
  dropped = evict_above(allocated_bytes_max_ - allocated_bytes_);
}

std::list<Buffer> CachingAllocator::evict_above(Bytes limit) {
  std::list<Buffer> dropped;
  while (cached_bytes_ > limit) {
    cached_bytes_ -= cached_.back().size();
    dropped.splice(dropped.end(), cached_, std::prev(cached_.end()));
  }
  return dropped;
}

Bytes CachingAllocator::cached_bytes() {
  Lock lock(mutex_);
  return cached_bytes_;
}

}  // namespace lockstep::comm
