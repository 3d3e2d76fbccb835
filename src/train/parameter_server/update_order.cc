#include "train/parameter_server/update_order.h"

#include "base/check.h"

namespace lockstep::train {

std::optional<std::int64_t> UpdateOrder::add(const Task& task) {
  if (task.step < complete_below_) return std::nullopt;
  if (!shares_of_[task.step].insert(task.share).second) return std::nullopt;
  while (!shares_of_.empty() && shares_of_.begin()->first == complete_below_ &&
         std::ssize(shares_of_.begin()->second) == shares_) {
    shares_of_.erase(shares_of_.begin());
    ++complete_below_;
  }
  const auto update = staleness_ ? task.step : arrived_ / shares_;
  ++arrived_;
  ++gradients_of_[update];
  return update;
}

bool UpdateOrder::is_complete() const {
  const auto found = gradients_of_.find(version_);
  return found != gradients_of_.end() && found->second == shares_;
}

void UpdateOrder::apply() {
  LS_CHECK(is_complete());
  gradients_of_.erase(version_);
  ++version_;
}

}  // namespace lockstep::train
