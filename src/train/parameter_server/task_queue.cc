#include "train/parameter_server/task_queue.h"

#include <algorithm>

#include "base/check.h"

namespace lockstep::train {

void TaskQueue::join(int worker) {
  workers_.try_emplace(worker);
  started_ = started_ || workers() >= shares_;
}

void TaskQueue::leave(int worker) {
  const auto found = workers_.find(worker);
  if (found == workers_.end()) return;
  if (const auto task = found->second)
    shares_of(task->step)[static_cast<std::size_t>(task->share)] = {};
  workers_.erase(found);
}

std::optional<Task> TaskQueue::take(int worker) {
  auto& task = workers_.at(worker);
  LS_CHECK(!task);
  if (!started_) return std::nullopt;
  for (auto step = oldest_; !staleness_ || step - oldest_ <= *staleness_; ++step) {
    auto& shares = shares_of(step);
    const auto share = free_share(shares, worker);
    if (!share) continue;
    shares[static_cast<std::size_t>(*share)] = {Share::State::taken, worker};
    return task = Task{step, *share};
  }
  return std::nullopt;
}

void TaskQueue::finish(int worker) {
  auto& task = workers_.at(worker);
  LS_CHECK(task);
  shares_of(task->step)[static_cast<std::size_t>(task->share)].state = Share::State::done;
  task.reset();
  const auto complete = [](const Shares& shares) {
    return std::all_of(shares.begin(), shares.end(),
                       [](const Share& share) { return share.state == Share::State::done; });
  };
  while (!steps_.empty() && steps_.begin()->first == oldest_ && complete(steps_.begin()->second)) {
    steps_.erase(steps_.begin());
    ++oldest_;
  }
}

TaskQueue::Shares& TaskQueue::shares_of(std::int64_t step) {
  return steps_.try_emplace(step, static_cast<std::size_t>(shares_)).first->second;
}

// The worker's own number first, so that workers that come in any order have the data of their
// rank.
std::optional<int> TaskQueue::free_share(const Shares& shares, int worker) const {
  if (is_reserved(shares, worker)) return std::nullopt;
  const auto is_free = [&](int share) {
    return shares[static_cast<std::size_t>(share)].state == Share::State::free;
  };
  if (worker < shares_ && is_free(worker)) return worker;
  for (int share = 0; share < shares_; ++share)
    if (is_free(share)) return share;
  return std::nullopt;
}

// Staleness 0: true if the free shares are for workers that have none of this step yet.
bool TaskQueue::is_reserved(const Shares& shares, int worker) const {
  if (staleness_ != 0) return false;
  const auto has_share = [&](int of) {
    return std::any_of(shares.begin(), shares.end(), [&](const Share& share) {
      return share.state != Share::State::free && share.worker == of;
    });
  };
  if (!has_share(worker)) return false;
  const auto free = std::count_if(shares.begin(), shares.end(), [](const Share& share) {
    return share.state == Share::State::free;
  });
  const auto without = std::count_if(workers_.begin(), workers_.end(),
                                     [&](const auto& each) { return !has_share(each.first); });
  return free <= without;
}

}  // namespace lockstep::train
