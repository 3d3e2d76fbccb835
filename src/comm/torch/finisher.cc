#include "comm/torch/finisher.h"

#include <utility>

namespace lockstep {

void Finisher::finish(const std::shared_ptr<Finisher>& finisher, std::shared_ptr<PendingCall> call,
                      Then then) {
  const PendingCall& watched = *call;
  watched.when_ready([finisher, task = Task{std::move(call), std::move(then)}]() mutable {
    add(finisher, std::move(task));
  });
}

void Finisher::add(const std::shared_ptr<Finisher>& finisher, Task task) {
  {
    Lock lock(finisher->mutex_);
    if (!finisher->stopping_) {
      // The thread shares the ownership: a callback on it may drop everybody else's.
      if (!finisher->thread_.joinable())
        finisher->thread_ = std::thread([finisher] { finisher->run(); });
      finisher->waiting_.push_back(std::move(task));
      finisher->changed_.notify_one();
      return;
    }
  }
  finisher->carry_out(std::move(task));
}

void Finisher::run() {
  while (auto task = next()) carry_out(*std::move(task));
}

std::optional<Finisher::Task> Finisher::next() {
  Lock lock(mutex_);
  while (waiting_.empty() && !stopping_)
    changed_.wait_until(mutex_, Deadline::after(std::chrono::hours(1)));
  if (waiting_.empty()) return std::nullopt;
  Task task = std::move(waiting_.front());
  waiting_.pop_front();
  return task;
}

void Finisher::carry_out(Task task) {
  const auto result = task.call->settle();
  if (task.then) task.then(result);
  Lock lock(mutex_);
  ended_.push_back(std::move(task));
}

void Finisher::sweep() {
  std::vector<Task> ended;
  Lock lock(mutex_);
  ended.swap(ended_);
  // The lock is released before `ended`, declared first, destroys what it holds.
}

void Finisher::stop() {
  std::thread thread;
  {
    Lock lock(mutex_);
    stopping_ = true;
    changed_.notify_one();
    thread.swap(thread_);
  }
  if (!thread.joinable()) return;
  // A callback may hold the last reference to the group, and so end up here.
  if (thread.get_id() == std::this_thread::get_id())
    thread.detach();
  else
    thread.join();
}

}  // namespace lockstep
