#include "comm/torch/completion_thread.h"

#include <utility>

namespace lockstep::comm {

void CompletionThread::complete_when_ready(
    const std::shared_ptr<CompletionThread>& completion_thread, std::shared_ptr<PendingCall> call,
    Continuation then) {
  const PendingCall& watched = *call;
  watched.on_ready([completion_thread, task = Task{std::move(call), std::move(then)}]() mutable {
    add(completion_thread, std::move(task));
  });
}

void CompletionThread::add(const std::shared_ptr<CompletionThread>& completion_thread, Task task) {
  {
    Lock lock(completion_thread->mutex_);
    if (!completion_thread->stopping_) {
      // The thread shares the ownership: a callback on it may drop all other references.
      if (!completion_thread->thread_.joinable())
        completion_thread->thread_ = std::thread([completion_thread] { completion_thread->run(); });
      completion_thread->tasks_.push_back(std::move(task));
      completion_thread->changed_.notify_one();
      return;
    }
  }
  completion_thread->run_task(std::move(task));
}

void CompletionThread::run() {
  while (auto task = next()) run_task(*std::move(task));
}

std::optional<CompletionThread::Task> CompletionThread::next() {
  Lock lock(mutex_);
  while (tasks_.empty() && !stopping_)
    changed_.wait_until(mutex_, Deadline::after(std::chrono::hours(1)));
  if (tasks_.empty()) return std::nullopt;
  Task task = std::move(tasks_.front());
  tasks_.pop_front();
  return task;
}

void CompletionThread::run_task(Task task) {
  const auto result = task.call->wait_and_finish();
  if (task.then) task.then(result);
  Lock lock(mutex_);
  completed_.push_back(std::move(task));
}

void CompletionThread::destroy_completed() {
  std::vector<Task> ended;
  Lock lock(mutex_);
  ended.swap(completed_);
  // The lock is released before `ended`, declared first, destroys its contents.
}

void CompletionThread::stop() {
  std::thread thread;
  {
    Lock lock(mutex_);
    stopping_ = true;
    changed_.notify_one();
    thread.swap(thread_);
  }
  if (!thread.joinable()) return;
  // A callback may have the last reference to the group, and so get here.
  if (thread.get_id() == std::this_thread::get_id())
    thread.detach();
  else
    thread.join();
}

}  // namespace lockstep::comm
