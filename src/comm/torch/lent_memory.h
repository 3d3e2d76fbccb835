// LentMemory: what allocate_tensor gives to torch, kept for the next call when its tensor is gone.
//
// A Buffer that is destroyed goes back to the system, and each page of the next one is zeroed and
// faulted in anew, by every rank that touches it: FSDP2, which asks for its buffers in each step,
// spent more on that than on communication. Here a size that was lent before comes back as it was.
// What lies in wait and what is lent are together never more than what was lent at once before.
// Safe to use from several threads; tensors may outlive it and every group.
#pragma once

#include <cstddef>
#include <list>
#include <memory>

#include <sys/types.h>

#include "base/mutex.h"
#include "base/result.h"
#include "base/units.h"
#include "comm/collective/buffer.h"

namespace lockstep {

class LentMemory : public std::enable_shared_from_this<LentMemory> {
 public:
  // This process's; a forked child, whose copy of it is its parent's memory, gets one of its own.
  static std::shared_ptr<LentMemory> of_process();
  static std::shared_ptr<LentMemory> create();

  // Not zeroed. It comes back when the last owner lets go of it.
  Result<std::shared_ptr<Buffer>> lend(Bytes size);

  Bytes waiting();

 private:
  LentMemory();
  Result<Buffer> take(Bytes size);
  void give_back(Buffer buffer);
  // Those that have waited longest, until at most so much lies in wait; to be destroyed unlocked.
  std::list<Buffer> drop_above(Bytes allowed) LS_REQUIRES(mutex_);

  const pid_t pid_;
  Mutex mutex_;                                      // guards what follows
  std::list<Buffer> waiting_ LS_GUARDED_BY(mutex_);  // the one given back last is first
  Bytes in_wait_ LS_GUARDED_BY(mutex_) = Bytes(0);
  Bytes lent_ LS_GUARDED_BY(mutex_) = Bytes(0);
  Bytes lent_max_ LS_GUARDED_BY(mutex_) = Bytes(0);
};

}  // namespace lockstep
