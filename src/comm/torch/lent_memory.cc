#include "comm/torch/lent_memory.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include <unistd.h>

namespace lockstep {

LentMemory::LentMemory() : pid_(::getpid()) {}

std::shared_ptr<LentMemory> LentMemory::create() {
  return std::shared_ptr<LentMemory>(new LentMemory());
}

std::shared_ptr<LentMemory> LentMemory::of_process() {
  static auto* mutex = new Mutex;
  static auto* own = new std::shared_ptr<LentMemory>;  // tensors may outlive main
  Lock lock(*mutex);
  if (!*own || (*own)->pid_ != ::getpid()) *own = create();
  return *own;
}

Result<std::shared_ptr<Buffer>> LentMemory::lend(Bytes size) {
  auto buffer = TRY(take(size));
  // Shared, as a tensor's deleter must be copyable; the memory keeps this until it is back.
  return std::shared_ptr<Buffer>(new Buffer(std::move(buffer)),
                                 [self = shared_from_this()](Buffer* lent) {
                                   self->give_back(std::move(*lent));
                                   delete lent;
                                 });
}

Result<Buffer> LentMemory::take(Bytes size) {
  std::list<Buffer> dropped;
  {
    Lock lock(mutex_);
    lent_ += size;
    lent_max_ = std::max(lent_max_, lent_);
    const auto found = std::find_if(waiting_.begin(), waiting_.end(),
                                    [&](const Buffer& each) { return each.size() == size; });
    if (found != waiting_.end()) {
      Buffer buffer = std::move(*found);
      waiting_.erase(found);
      in_wait_ -= size;
      return buffer;
    }
    dropped = drop_above(lent_max_ - lent_);
  }
  dropped.clear();
  auto made = Buffer::create(size);
  if (!made) {
    Lock lock(mutex_);
    lent_ -= size;
  }
  return made;
}

void LentMemory::give_back(Buffer buffer) {
  const bool of_parent = ::getpid() != pid_;  // a forked child's copy of it
  if (of_parent || buffer.size() == Bytes(0)) return;
  std::list<Buffer> dropped;
  Lock lock(mutex_);
  lent_ -= buffer.size();
  in_wait_ += buffer.size();
  waiting_.push_front(std::move(buffer));
  // Released before `dropped`, declared first, goes back to the system.
  dropped = drop_above(lent_max_ - lent_);
}

std::list<Buffer> LentMemory::drop_above(Bytes allowed) {
  std::list<Buffer> dropped;
  while (in_wait_ > allowed) {
    in_wait_ -= waiting_.back().size();
    dropped.splice(dropped.end(), waiting_, std::prev(waiting_.end()));
  }
  return dropped;
}

Bytes LentMemory::waiting() {
  Lock lock(mutex_);
  return in_wait_;
}

}  // namespace lockstep
