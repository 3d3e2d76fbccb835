#include "platform/server/waiting.h"

#include <utility>
#include <vector>

namespace lockstep {

void Waiting::wait(const RunId& run, Duration patience, Try attempt) {
  const bool is_last = ended_ || patience <= Duration(0);
  if (attempt(is_last ? Turn::last : Turn::early) || is_last) return;
  const std::int64_t id = next_++;
  Timer timer = loop_.after(patience, [this, id] { try_again(id, Turn::last); });
  waiters_.emplace(id, Waiter{run, std::move(attempt), std::move(timer)});
}

void Waiting::wake(const RunId& run) {
  if (woken_.empty()) wakening_ = loop_.after(Duration(0), [this] { try_woken(); });
  woken_.insert(run);
}

void Waiting::end() {
  ended_ = true;
  while (!waiters_.empty()) try_again(waiters_.begin()->first, Turn::last);
}

void Waiting::try_woken() {
  const auto woken = std::exchange(woken_, {});
  std::vector<std::int64_t> ids;
  for (const auto& [id, waiter] : waiters_)
    if (woken.contains(waiter.run)) ids.push_back(id);
  for (std::int64_t id : ids) try_again(id, Turn::early);
}

// Out of the map while it is tried, so that it may do what it likes.
void Waiting::try_again(std::int64_t id, Turn turn) {
  auto waiter = waiters_.extract(id);
  if (waiter.empty()) return;
  if (!waiter.mapped().attempt(turn) && turn == Turn::early) waiters_.insert(std::move(waiter));
}

}  // namespace lockstep
