// FreedPages: the memory of freed tensors, for the next tensor of the same size.
//
// Most programs free and allocate the same tensors in each step. Without reuse, their pages are
// faulted in again whenever malloc has returned them to the system, and pages that have moved into
// the shared heap would move again. Used and kept memory together never exceed the maximum that was
// used at once. Memory that is not used again within some seconds is returned. For all threads,
// and for forked children, which have their own copy.
#pragma once

#include <chrono>
#include <cstddef>
#include <list>
#include <vector>

#include "base/mutex.h"

namespace lockstep::comm {

class FreedPages {
 public:
  static constexpr auto kKept = std::chrono::seconds(10);
  using Time = std::chrono::steady_clock::time_point;
  struct Taken {
    std::byte* pages = nullptr;            // null: there are none of this size
    std::vector<std::byte*> dropped = {};  // for the caller to free
  };

  static FreedPages& of_this_process();
  // For tests.
  FreedPages() = default;

  // Also counts memory that the caller allocates because there is none.
  Taken take(std::size_t bytes, Time now);
  // Pages that were taken, or counted by take(). The result is for the caller to free.
  std::vector<std::byte*> keep(std::byte* pages, std::size_t bytes, Time now);
  // The same for memory that is not there any more.
  void forget(std::size_t bytes);

 private:
  struct Kept {
    std::byte* pages;
    std::size_t bytes;
    Time since;
  };
  // The memory that was kept longest, until the rest is neither too much nor too old.
  std::vector<std::byte*> drop(Time now) LS_REQUIRES(mutex_);

  Mutex mutex_;                                 // guards what follows; held during a fork
  std::list<Kept> kept_ LS_GUARDED_BY(mutex_);  // the last freed one is first
  std::size_t kept_bytes_ LS_GUARDED_BY(mutex_) = 0;
  std::size_t used_bytes_ LS_GUARDED_BY(mutex_) = 0;
  std::size_t used_bytes_max_ LS_GUARDED_BY(mutex_) = 0;
};

}  // namespace lockstep::comm
