#include "base/task_thread.h"

#include <chrono>
#include <utility>

namespace lockstep {
namespace {

constexpr Duration kIdleTaskWait = std::chrono::seconds(10);  // between checks for a task

}  // namespace

TaskThread::TaskThread(std::size_t waiting_max)
    : waiting_max_(waiting_max), thread_([this] { work(); }) {}

TaskThread::~TaskThread() {
  {
    const Lock lock(mutex_);
    ending_ = true;
    changed_.notify_all();
  }
  thread_.join();
}

bool TaskThread::add(Task task) {
  const Lock lock(mutex_);
  if (waiting_.size() >= waiting_max_) return false;
  waiting_.push_back(std::move(task));
  changed_.notify_all();
  return true;
}

void TaskThread::work() {
  while (const Task task = next_task()) task();
}

TaskThread::Task TaskThread::next_task() {
  const Lock lock(mutex_);
  while (waiting_.empty() && !ending_) changed_.wait_until(mutex_, Deadline::after(kIdleTaskWait));
  if (ending_) return {};
  Task task = std::move(waiting_.front());
  waiting_.pop_front();
  return task;
}

}  // namespace lockstep
