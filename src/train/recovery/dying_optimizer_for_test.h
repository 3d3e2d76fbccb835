// For tests: an optimizer whose rank is killed when it gets the names of the state, while the state
// itself is in flight.
#pragma once

#include <csignal>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "train/optimizer/resumable_optimizer.h"
#include "train/shard.h"

namespace lockstep::train::doomed_for_test {

class DyingOptimizer final : public ResumableOptimizer {
 public:
  explicit DyingOptimizer(ResumableOptimizer& of) : wrapped_(of) {}

  std::int64_t decided_steps() const override { return wrapped_.decided_steps(); }
  bool awaits_decision() const override { return wrapped_.awaits_decision(); }
  double last_norm() const override { return wrapped_.last_norm(); }
  Result<void> apply_missed_step(double norm) override { return wrapped_.apply_missed_step(norm); }
  void set_decided_steps(std::int64_t decided) override { wrapped_.set_decided_steps(decided); }
  std::string_view method() const override { return wrapped_.method(); }
  std::int64_t steps() const override { return wrapped_.steps(); }
  void set_steps(std::int64_t steps) override { wrapped_.set_steps(steps); }
  Result<std::vector<NamedTensor>> flat_state() override { return wrapped_.flat_state(); }
  Result<std::vector<OwnedTensor>> make_state(const std::vector<std::string>& names) override {
    std::raise(SIGKILL);
    return wrapped_.make_state(names);
  }
  Result<void> rebuild() override { return wrapped_.rebuild(); }
  void scale_learning_rate(double factor) override { wrapped_.scale_learning_rate(factor); }

 private:
  ResumableOptimizer& wrapped_;
};

}  // namespace lockstep::train::doomed_for_test
