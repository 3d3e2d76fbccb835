#include "platform/server/long_polls.h"

#include <utility>
#include <vector>

namespace lockstep::server {

void LongPolls::wait(const model::RunId& run, Duration patience, TryAnswer attempt) {
  const bool is_last = ended_ || patience <= Duration(0);
  if (attempt(is_last ? AttemptKind::last : AttemptKind::early) || is_last) return;
  const std::int64_t id = next_++;
  net::Timer timer = loop_.after(patience, [this, id] { retry(id, AttemptKind::last); });
  add(id, {run, std::move(attempt), std::move(timer)});
}

void LongPolls::add(std::int64_t id, PendingPoll poll) {
  polls_of_run_[poll.run].insert(id);
  polls_.emplace(id, std::move(poll));
}

void LongPolls::notify(const model::RunId& run) {
  if (notified_.empty()) notify_timer_ = loop_.after(Duration(0), [this] { retry_notified(); });
  notified_.insert(run);
}

void LongPolls::finish() {
  ended_ = true;
  while (!polls_.empty()) retry(polls_.begin()->first, AttemptKind::last);
}

void LongPolls::retry_notified() {
  const auto woken = std::exchange(notified_, {});
  std::vector<std::int64_t> ids;
  for (const model::RunId& run : woken)
    if (const auto found = polls_of_run_.find(run); found != polls_of_run_.end())
      ids.insert(ids.end(), found->second.begin(), found->second.end());
  for (std::int64_t id : ids) retry(id, AttemptKind::early);
}

// Removed from the maps during the try, which may call any method.
void LongPolls::retry(std::int64_t id, AttemptKind turn) {
  auto waiter = polls_.extract(id);
  if (waiter.empty()) return;
  PendingPoll poll = std::move(waiter.mapped());
  const auto others = polls_of_run_.find(poll.run);
  others->second.erase(id);
  if (others->second.empty()) polls_of_run_.erase(others);
  if (!poll.try_answer(turn) && turn == AttemptKind::early) add(id, std::move(poll));
}

}  // namespace lockstep::server
