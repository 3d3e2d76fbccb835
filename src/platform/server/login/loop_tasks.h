// LoopTasks: work that takes long, on a thread of its own, and what follows it on the loop's
// thread.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <utility>

#include "base/task_thread.h"
#include "net/loop.h"

namespace lockstep::server {

class LoopTasks {
 public:
  using Continuation = std::function<void()>;
  using Work = std::function<Continuation()>;

  // The loop outlives this.
  LoopTasks(net::Loop& loop, std::size_t waiting_max) : loop_(loop), thread_(waiting_max) {}

  // The continuation that the work returns is called on the loop's thread, while this exists.
  // False: too much work waits.
  bool run(Work work) {
    return thread_.add(
        [&loop = loop_, alive = std::weak_ptr<bool>(alive_), work = std::move(work)] {
          loop.post([alive, next = work()] {
            if (alive.lock()) next();
          });
        });
  }

 private:
  net::Loop& loop_;
  // Shared, so that a continuation finds out that this is gone.
  std::shared_ptr<bool> alive_ = std::make_shared<bool>(true);
  TaskThread thread_;
};

}  // namespace lockstep::server
