// Optimizer: torch::optim over this rank's slices of the model's units. The ranks agree on a step
// before any rank takes it: they compare gradient norms, and if any norm is not finite, no rank
// steps. So a rank that is lost or overflows never leaves the others with parameters that differ.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "lockstep/train_types.h"
#include "train/gradient/non_finite_detector.h"
#include "train/optimizer/resumable_optimizer.h"
#include "train/shard.h"

namespace torch::optim {
class Optimizer;
}

namespace lockstep::train {

struct StepOutcome {
  bool taken = false;        // false: some gradient was infinite or not a number
  double gradient_norm = 0;  // before clipping; infinity if not finite
  // For a step that is not taken: the rank that had the first value that is not finite.
  std::optional<NonFiniteValue> non_finite = std::nullopt;
};

class Optimizer final : public ResumableOptimizer {
 public:
  // The model must outlive it.
  static Result<std::unique_ptr<Optimizer>> create(ShardedModel& model,
                                                   const OptimizerOptions& options);
  ~Optimizer() override;

  // After model.finish_gradients(). Every rank gets the same result, and whole parameters that are
  // stepped.
  Result<StepOutcome> step();
  // On a parameter server, with the gradients of its slices: the step that the workers asked for.
  Result<void> apply_update(const std::vector<double>& learning_rates);

  std::int64_t decided_steps() const override { return decided_steps_; }
  bool awaits_decision() const override { return awaits_decision_; }
  double last_norm() const override { return last_norm_; }
  Result<void> apply_missed_step(double norm) override;
  void set_decided_steps(std::int64_t decided) override;

  // The rate of the next step: the last one set, times the scale.
  double learning_rate() const { return options_.learning_rate * scale_; }
  void set_learning_rate(double rate);
  void scale_learning_rate(double factor) override;

  // "adamw" or "sgd".
  std::string_view method() const override;
  std::int64_t steps() const override { return steps_; }
  void set_steps(std::int64_t steps) override;
  // For each kind of state one tensor a unit.
  Result<std::vector<NamedTensor>> flat_state() override;
  // The state of each parameter that this rank holds: "exp_avg/head.weight".
  std::vector<OwnedTensor> state() const;
  Result<std::vector<OwnedTensor>> make_state(const std::vector<std::string>&) override {
    return state();  // it exists from the start
  }
  Result<void> rebuild() override;

 private:
  struct StateKind {  // one kind of state, flat, for each unit
    std::string name;
    std::vector<at::Tensor> flat;
  };

  Optimizer(ShardedModel& model, const OptimizerOptions& options);
  void take_slices();
  void use_adamw(const AdamW& method);
  void use_sgd(const Sgd& method);
  std::vector<at::Tensor> zeros_like_slices() const;
  Result<StepOutcome> apply_step(double norm);
  Result<StepOutcome> explain(StepOutcome step);
  Result<StepOutcome> step_on_servers(ParameterWorker& worker);

  ShardedModel& model_;
  OptimizerOptions options_;
  double scale_ = 1;
  std::vector<at::Tensor> flat_;  // the leaves of torch::optim: one for each unit's master
  std::unique_ptr<torch::optim::Optimizer> torch_;
  std::vector<StateKind> state_kinds_;
  std::int64_t steps_ = 0;
  std::int64_t decided_steps_ = 0;
  bool awaits_decision_ = false;
  double last_norm_ = 0;
  int skipped_steps_ = 0;  // in a row
};

}  // namespace lockstep::train
