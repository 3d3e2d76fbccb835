// Optimizer: torch::optim over this rank's slices of the model's units. A step is agreed on before
// anybody takes it: the ranks compare gradient norms, and where any of them is not finite, nobody
// steps. So a rank that dies or overflows never leaves the others with parameters that differ.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "base/result.h"
#include "train/finite_looks.h"
#include "train/shard.h"
#include "train/stepper.h"

namespace torch::optim {
class Optimizer;
}

namespace lockstep {

// As in Loshchilov and Hutter, "Decoupled Weight Decay Regularization", 2019.
struct AdamW {
  double beta1 = 0.9;
  double beta2 = 0.999;
  double epsilon = 1e-8;
  double weight_decay = 0.01;
};

struct Sgd {
  double momentum = 0;
  double weight_decay = 0;
};

struct OptimizerOptions {
  std::variant<AdamW, Sgd> method = AdamW{};
  double learning_rate = 1e-3;
  // Gradients are scaled down to this global norm (over all parameters and ranks).
  std::optional<double> clip_norm = std::nullopt;
  // After so many steps in a row that are not taken step() fails, on all ranks.
  int not_taken_max = 10;
};

struct Step {
  bool taken = false;        // false: some gradient was infinite or not a number
  double gradient_norm = 0;  // before clipping; infinity if not finite
  // Of a step that is not taken: who had the first value that is not finite.
  std::optional<NotFinite> not_finite = std::nullopt;
};

class Optimizer final : public Stepper {
 public:
  // The model must outlive it.
  static Result<std::unique_ptr<Optimizer>> create(ShardedModel& model,
                                                   const OptimizerOptions& options);
  ~Optimizer() override;

  // After model.finish_gradients(). Every rank gets the same answer, and whole parameters that are
  // stepped.
  Result<Step> step();

  std::int64_t decided() const override { return decided_; }
  bool undecided() const override { return undecided_; }
  double last_norm() const override { return last_norm_; }
  Result<void> catch_up(double norm) override;
  void set_decided(std::int64_t decided) override;

  // By which it steps: what was set last, times the scale.
  double learning_rate() const { return options_.learning_rate * scale_; }
  void set_learning_rate(double rate);
  void scale_learning_rate(double factor) override;

  // "adamw" or "sgd".
  std::string_view method() const override;
  std::int64_t steps() const override { return steps_; }
  void set_steps(std::int64_t steps) override;
  // Of each kind of state a tensor a unit.
  Result<std::vector<NamedTensor>> flat_state() override;
  // The state of each parameter that this rank holds: "exp_avg/head.weight".
  std::vector<OwnedTensor> state() const;
  Result<std::vector<OwnedTensor>> state_like(const std::vector<std::string>&) override {
    return state();  // it is there from the beginning
  }
  Result<void> remake() override;

 private:
  struct Slot {  // one kind of state, flat, for each unit
    std::string name;
    std::vector<at::Tensor> flat;
  };

  Optimizer(ShardedModel& model, const OptimizerOptions& options);
  void take_slices();
  void use_adamw(const AdamW& method);
  void use_sgd(const Sgd& method);
  std::vector<at::Tensor> zeros_like_slices() const;
  Result<Step> take(double norm);
  Result<Step> explain(Step step);

  ShardedModel& model_;
  OptimizerOptions options_;
  double scale_ = 1;
  std::vector<at::Tensor> flat_;  // what torch::optim sees: a leaf for each unit's master
  std::unique_ptr<torch::optim::Optimizer> torch_;
  std::vector<Slot> slots_;
  std::int64_t steps_ = 0;
  std::int64_t decided_ = 0;
  bool undecided_ = false;
  double last_norm_ = 0;
  int not_taken_ = 0;  // in a row
};

}  // namespace lockstep
