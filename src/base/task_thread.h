// TaskThread: runs tasks one after the other on a thread of its own, so that slow work does not
// keep the caller's thread.
#pragma once

#include <cstddef>
#include <deque>
#include <functional>
#include <thread>

#include "base/mutex.h"

namespace lockstep {

class TaskThread {
 public:
  using Task = std::function<void()>;

  explicit TaskThread(std::size_t waiting_max);
  // Waits for the task in progress. Those that wait do not run.
  ~TaskThread();
  TaskThread(const TaskThread&) = delete;
  TaskThread& operator=(const TaskThread&) = delete;

  // False: too many wait, and the task will not run.
  bool add(Task task) LS_EXCLUDES(mutex_);

 private:
  void work() LS_EXCLUDES(mutex_);
  // Waits for a task; none: no more will run.
  Task next_task() LS_EXCLUDES(mutex_);

  const std::size_t waiting_max_;
  Mutex mutex_;  // guards what follows
  Condition changed_;
  std::deque<Task> waiting_ LS_GUARDED_BY(mutex_);
  bool ending_ LS_GUARDED_BY(mutex_) = false;
  std::thread thread_;  // the last member: it uses the others
};

}  // namespace lockstep
