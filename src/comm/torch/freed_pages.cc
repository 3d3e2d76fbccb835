#include "comm/torch/freed_pages.h"

#include <algorithm>

#include <pthread.h>

#include "base/check.h"

namespace lockstep::comm {

FreedPages& FreedPages::of_this_process() {
  static auto* const all = [] {
    const auto before = []() LS_THREAD_ANNOTATION(no_thread_safety_analysis) {
      of_this_process().mutex_.lock();
    };
    const auto after = []() LS_THREAD_ANNOTATION(no_thread_safety_analysis) {
      of_this_process().mutex_.unlock();
    };
    LS_CHECK(::pthread_atfork(before, after, after) == 0);
    return new FreedPages;  // never destroyed: tensors may outlive main
  }();
  return *all;
}

FreedPages::Taken FreedPages::take(std::size_t bytes, Time now) {
  Taken taken;
  Lock lock(mutex_);
  used_bytes_ += bytes;
  used_bytes_max_ = std::max(used_bytes_max_, used_bytes_);
  const auto found = std::ranges::find(kept_, bytes, &Kept::bytes);
  if (found != kept_.end()) {
    taken.pages = found->pages;
    kept_bytes_ -= bytes;
    kept_.erase(found);
  }
  taken.dropped = drop(now);
  return taken;
}

std::vector<std::byte*> FreedPages::keep(std::byte* pages, std::size_t bytes, Time now) {
  Lock lock(mutex_);
  used_bytes_ -= bytes;
  kept_bytes_ += bytes;
  kept_.push_front({pages, bytes, now});
  return drop(now);
}

void FreedPages::forget(std::size_t bytes) {
  Lock lock(mutex_);
  used_bytes_ -= bytes;
}

std::vector<std::byte*> FreedPages::drop(Time now) {
  std::vector<std::byte*> dropped;
  while (!kept_.empty() &&
         (kept_bytes_ > used_bytes_max_ - used_bytes_ || now - kept_.back().since > kKept)) {
    dropped.push_back(kept_.back().pages);
    kept_bytes_ -= kept_.back().bytes;
    kept_.pop_back();
  }
  return dropped;
}

}  // namespace lockstep::comm
