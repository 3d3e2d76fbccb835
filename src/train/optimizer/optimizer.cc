#include "train/optimizer/optimizer.h"

#include <cmath>
#include <utility>

#include <ATen/core/grad_mode.h>
#include <ATen/ops/zeros_like.h>
#include <torch/optim/adamw.h>
#include <torch/optim/sgd.h>

#include "base/check.h"
#include "base/format.h"
#include "train/optimizer/gradient_norm.h"

namespace lockstep::train {
namespace {

// AdamW and SGD have the same kinds of options: "lr, then the rest". This checks their ranges.
Result<void> check(const OptimizerOptions& options) {
  if (!(options.learning_rate >= 0))
    return Error{Code::invalid,
                 format("learning rate {}: must not be negative", options.learning_rate)};
  if (options.skipped_steps_max < 1)
    return Error{Code::invalid,
                 format("not_taken_max {}: must be positive", options.skipped_steps_max)};
  if (options.clip_norm && !(*options.clip_norm > 0))
    return Error{Code::invalid, format("clip norm {}: must be positive", *options.clip_norm)};
  return {};
}

Error torch_error(const std::exception& exception) {
  const std::string message = exception.what();
  return Error{Code::invalid, "optimizer: " + message.substr(0, message.find('\n'))};
}

}  // namespace

Result<std::unique_ptr<Optimizer>> Optimizer::create(ShardedModel& model,
                                                     const OptimizerOptions& options) {
  TRY(check(options));
  std::unique_ptr<Optimizer> optimizer(new Optimizer(model, options));
  TRY(optimizer->rebuild());
  return optimizer;
}

Result<void> Optimizer::rebuild() {
  awaits_decision_ = false;
  try {
    take_slices();
    if (auto* adamw = std::get_if<AdamW>(&options_.method)) use_adamw(*adamw);
    if (auto* sgd = std::get_if<Sgd>(&options_.method)) use_sgd(*sgd);
  } catch (const std::exception& exception) {
    return torch_error(exception);
  }
  return {};
}

void Optimizer::take_slices() {
  torch_.reset();
  state_kinds_.clear();
  flat_.clear();
  for (const auto& unit : model_.units()) {
    if (!unit.trainable()) break;  // they come after all others
    flat_.push_back(unit.master().detach());
    flat_.back().mutable_grad() = unit.master_gradient();
  }
}

Optimizer::Optimizer(ShardedModel& model, const OptimizerOptions& options)
    : model_(model), options_(options) {}
Optimizer::~Optimizer() = default;

std::vector<at::Tensor> Optimizer::zeros_like_slices() const {
  std::vector<at::Tensor> zeros;
  for (const auto& tensor : flat_) zeros.push_back(at::zeros_like(tensor));
  return zeros;
}

// State is created here and not in the first step, so that a checkpoint can be loaded before it.
void Optimizer::use_adamw(const AdamW& method) {
  auto options = torch::optim::AdamWOptions(learning_rate())
                     .betas({method.beta1, method.beta2})
                     .eps(method.epsilon)
                     .weight_decay(method.weight_decay);
  torch_ = std::make_unique<torch::optim::AdamW>(flat_, options);
  state_kinds_ = {{"exp_avg", zeros_like_slices()}, {"exp_avg_sq", zeros_like_slices()}};
  for (std::size_t i = 0; i < flat_.size(); ++i) {
    auto state = std::make_unique<torch::optim::AdamWParamState>();
    state->exp_avg(state_kinds_[0].flat[i]).exp_avg_sq(state_kinds_[1].flat[i]);
    torch_->state()[flat_[i].unsafeGetTensorImpl()] = std::move(state);
  }
}

void Optimizer::use_sgd(const Sgd& method) {
  auto options = torch::optim::SGDOptions(learning_rate())
                     .momentum(method.momentum)
                     .weight_decay(method.weight_decay);
  torch_ = std::make_unique<torch::optim::SGD>(flat_, options);
  if (method.momentum == 0) return;
  state_kinds_ = {{"momentum", zeros_like_slices()}};
  for (std::size_t i = 0; i < flat_.size(); ++i) {
    auto state = std::make_unique<torch::optim::SGDParamState>();
    state->momentum_buffer(state_kinds_[0].flat[i]);
    torch_->state()[flat_[i].unsafeGetTensorImpl()] = std::move(state);
  }
}

std::string_view Optimizer::method() const {
  return std::holds_alternative<AdamW>(options_.method) ? "adamw" : "sgd";
}

void Optimizer::set_learning_rate(double rate) {
  options_.learning_rate = rate;
  for (auto& group : torch_->param_groups()) group.options().set_lr(learning_rate());
}

void Optimizer::scale_learning_rate(double factor) {
  scale_ = factor;
  set_learning_rate(options_.learning_rate);
}

void Optimizer::set_decided_steps(std::int64_t decided) {
  decided_steps_ = decided;
  awaits_decision_ = false;
}

void Optimizer::set_steps(std::int64_t steps) {
  steps_ = steps;
  if (!std::holds_alternative<AdamW>(options_.method)) return;
  for (auto& [key, state] : torch_->state())
    static_cast<torch::optim::AdamWParamState&>(*state).step(steps);
}

Result<std::vector<NamedTensor>> Optimizer::flat_state() {
  std::vector<NamedTensor> tensors;
  for (const auto& kind : state_kinds_)
    for (const auto& tensor : kind.flat) tensors.push_back({kind.name, tensor});
  return tensors;
}

std::vector<OwnedTensor> Optimizer::state() const {
  std::vector<OwnedTensor> owned;
  const auto& layout = model_.layout();
  for (const auto& kind : state_kinds_)
    for (std::size_t i = 0; i < layout.parameters.size(); ++i) {
      const auto& parameter_layout = layout.parameters[i];
      if (!parameter_layout.spec.trainable) continue;
      const auto& flat = kind.flat[static_cast<std::size_t>(parameter_layout.unit)];
      owned.push_back({format("{}/{}", kind.name, parameter_layout.spec.name),
                       parameter_layout.spec.shape, parameter_layout.owned,
                       Unit::owned_view(flat, layout, static_cast<int>(i)), /*copies_equal=*/true,
                       /*stable_between_steps=*/true});
    }
  return owned;
}

Result<StepOutcome> Optimizer::step() {
  TRY(model_.status());
  if (auto* worker = model_.parameter_worker()) return step_on_servers(*worker);
  if (model_.parameter_server() != nullptr)
    return Error{Code::invalid, "this rank is a parameter server, which steps only by serving"};
  awaits_decision_ = true;
  const double norm = TRY(global_gradient_norm(model_));
  const auto step = TRY(apply_step(norm));
  if (!step.taken) return explain(step);
  skipped_steps_ = 0;
  model_.clear_finite_checks();
  TRY(model_.begin_parameter_sync());
  return step;
}

// This worker's gradients alone: the others take their own steps. The servers clip, because they
// get gradients before the norm is known.
Result<StepOutcome> Optimizer::step_on_servers(ParameterWorker& worker) {
  const double norm = TRY(global_gradient_norm(model_));
  StepOutcome step{.taken = std::isfinite(norm), .gradient_norm = norm};
  StepReport report{.scale = step.taken ? 1.0 : 0.0, .learning_rates = {learning_rate()}};
  if (step.taken && options_.clip_norm && norm > *options_.clip_norm)
    report.scale = *options_.clip_norm / norm;
  TRY(worker.finish_step(report));
  ++decided_steps_;
  last_norm_ = norm;
  if (step.taken) {
    ++steps_;
    skipped_steps_ = 0;
    model_.clear_finite_checks();
  } else {
    step = TRY(explain(step));
  }
  TRY(model_.begin_parameter_sync());
  return step;
}

Result<void> Optimizer::apply_update(const std::vector<double>& learning_rates) {
  LS_CHECK(model_.parameter_server() != nullptr);
  if (!learning_rates.empty()) set_learning_rate(learning_rates.front());
  TRY(apply_step(/*norm=*/0));
  return {};
}

// The decision is final, even if a rank is lost before all ranks know which one had the value.
Result<StepOutcome> Optimizer::explain(StepOutcome step) {
  step.non_finite = TRY(model_.find_first_non_finite());
  model_.clear_finite_checks();
  if (++skipped_steps_ < options_.skipped_steps_max) return step;
  return Error{Code::invalid, format("{} steps in a row were not taken; in the last {}",
                                     skipped_steps_, step.non_finite->describe())};
}

Result<void> Optimizer::apply_missed_step(double norm) {
  LS_CHECK(awaits_decision_);
  TRY(apply_step(norm));
  return {};
}

Result<StepOutcome> Optimizer::apply_step(double norm) {
  const at::NoGradGuard no_grad;
  model_.snapshot_copies()->wait();
  awaits_decision_ = false;
  ++decided_steps_;
  last_norm_ = norm;
  if (!std::isfinite(norm)) return StepOutcome{.taken = false, .gradient_norm = norm};
  try {
    if (options_.clip_norm && norm > *options_.clip_norm)
      scale_gradients(model_, *options_.clip_norm / norm);
    model_.fetch_gradients();
    torch_->step();
  } catch (const std::exception& exception) {
    return torch_error(exception);
  }
  ++steps_;
  return StepOutcome{.taken = true, .gradient_norm = norm};
}

}  // namespace lockstep::train
