#include "comm/collective/wait_time.h"

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <utility>

namespace lockstep::comm {
namespace {

using std::chrono::nanoseconds;
using std::chrono::steady_clock;

std::atomic<std::int64_t> waited_nanoseconds = 0;
// Times of the steady clock; 0: none since the last take_wait_time().
std::atomic<std::int64_t> last_submitted = 0, last_done = 0;
thread_local bool waits_already = false;

std::int64_t steady_nanoseconds() {
  return nanoseconds(steady_clock::now().time_since_epoch()).count();
}

}  // namespace

WaitScope::WaitScope() : is_outermost_(!std::exchange(waits_already, true)) {
  if (is_outermost_) begun_ = steady_clock::now();
}

WaitScope::~WaitScope() {
  if (!is_outermost_) return;
  waits_already = false;
  const nanoseconds waited = steady_clock::now() - begun_;
  waited_nanoseconds.fetch_add(waited.count(), std::memory_order_relaxed);
}

void note_submitted() { last_submitted.store(steady_nanoseconds(), std::memory_order_relaxed); }
void note_done() { last_done.store(steady_nanoseconds(), std::memory_order_relaxed); }

nanoseconds take_wait_time() {
  const std::int64_t submitted = last_submitted.exchange(0, std::memory_order_relaxed);
  const std::int64_t done = last_done.exchange(0, std::memory_order_relaxed);
  const std::int64_t in_futures = submitted > 0 ? std::max<std::int64_t>(0, done - submitted) : 0;
  return nanoseconds(waited_nanoseconds.exchange(0, std::memory_order_relaxed) + in_futures);
}

}  // namespace lockstep::comm
