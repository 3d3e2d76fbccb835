// TaskQueue: which worker computes which share of which step. Pure.
//
// A step's batch has as many shares as the training had workers at its start. A share is computed
// by the next worker that is free, so a slow worker takes fewer shares and holds up no other (after
// Harlap et al., "Addressing the straggler problem for iterative convergent parallel ML", SoCC
// 2016). A task is given out only if all steps up to `staleness` before its own are complete (Ho et
// al., "More effective distributed ML via a stale synchronous parallel parameter server", NIPS
// 2013). The task of a worker that is lost is given to another one.
//
// Example: 3 shares, staleness 1, worker 2 is slow.
//   worker 0   step 0 share 0    step 1 share 0    step 1 share 2    waits for step 0
//   worker 1   step 0 share 1    step 1 share 1    waits for step 0
//   worker 2   step 0 share 2 ..............................................
//
// Staleness 0: a worker computes one share of each step, so that each worker's own data counts
// once, unless fewer workers than shares are left.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <vector>

namespace lockstep::train {

struct Task {
  std::int64_t step = 0;
  int share = 0;
  friend auto operator<=>(const Task&, const Task&) = default;
};

class TaskQueue {
 public:
  // staleness: nothing is no bound. first_step: the first that is not complete.
  TaskQueue(int shares, std::optional<int> staleness, std::int64_t first_step = 0)
      : shares_(shares), staleness_(staleness), oldest_(first_step) {}

  // Workers have any numbers. No task is given out before as many as there are shares have joined.
  void join(int worker);
  // Its task, if it has one, is the next that is given out.
  void leave(int worker);
  // Nothing: the worker waits until another one finishes a task or leaves. The worker has no task.
  std::optional<Task> take(int worker);
  // The worker's task is done.
  void finish(int worker);

  // The first step that is not complete.
  std::int64_t oldest_step() const { return oldest_; }
  int workers() const { return static_cast<int>(workers_.size()); }

 private:
  struct Share {
    enum class State { free, taken, done };
    State state = State::free;
    int worker = 0;  // that took it
  };
  using Shares = std::vector<Share>;

  Shares& shares_of(std::int64_t step);
  std::optional<int> free_share(const Shares& shares, int worker) const;
  bool is_reserved(const Shares& shares, int worker) const;

  const int shares_;
  const std::optional<int> staleness_;
  std::int64_t oldest_;
  bool started_ = false;
  std::map<std::int64_t, Shares> steps_;        // from the oldest on
  std::map<int, std::optional<Task>> workers_;  // present, with their tasks
};

}  // namespace lockstep::train
