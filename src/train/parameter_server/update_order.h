// UpdateOrder: which gradients make up which update of a server's parameters. Pure.
//
// An update is the mean of as many gradients as a step has shares. Updates are applied one after
// the other. With a bound on staleness, update k has the gradients of step k: so the parameters of
// all servers after k updates are those of the first k batches, each sample counted once. Without a
// bound a gradient belongs to the next update that is not full, whatever its step: no update waits
// for a slow worker.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>

#include "train/parameter_server/task_queue.h"

namespace lockstep::train {

class UpdateOrder {
 public:
  UpdateOrder(int shares, std::optional<int> staleness, std::int64_t first_step = 0)
      : shares_(shares),
        staleness_(staleness),
        version_(first_step),
        arrived_(first_step * shares),
        complete_below_(first_step) {}

  // The update that the gradient of the task is part of. Nothing: the gradient was there before. A
  // task may be computed twice, by a worker that was lost and another one.
  std::optional<std::int64_t> add(const Task& task);
  // True if the next update has all of its gradients.
  bool is_complete() const;
  // The next update has been applied.
  void apply();
  // The number of updates applied, counted from the first step of the training.
  std::int64_t version() const { return version_; }
  // True if the parameters are new enough to compute a gradient of the step.
  bool serves(std::int64_t step) const { return !staleness_ || version_ >= step - *staleness_; }

 private:
  const int shares_;
  const std::optional<int> staleness_;
  std::int64_t version_;
  std::int64_t arrived_;                             // gradients
  std::map<std::int64_t, std::set<int>> shares_of_;  // by step, of those that are not complete
  std::int64_t complete_below_;                      // all shares of these steps have come
  std::map<std::int64_t, int> gradients_of_;         // by update
};

}  // namespace lockstep::train
