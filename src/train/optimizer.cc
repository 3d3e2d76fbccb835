#include "train/optimizer.h"

#include <cmath>
#include <utility>

#include <ATen/core/grad_mode.h>
#include <ATen/ops/zeros_like.h>
#include <torch/optim/adamw.h>
#include <torch/optim/sgd.h>

#include "base/check.h"
#include "base/format.h"
#include "train/agreement.h"

namespace lockstep {
namespace {

// AdamW and SGD share the shape of "lr, then the rest"; these are what may be set at all.
Result<void> check(const OptimizerOptions& options) {
  if (!(options.learning_rate >= 0))
    return Error{Code::invalid,
                 format("learning rate {}: must not be negative", options.learning_rate)};
  if (options.not_taken_max < 1)
    return Error{Code::invalid,
                 format("not_taken_max {}: must be positive", options.not_taken_max)};
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
  TRY(optimizer->remake());
  return optimizer;
}

Result<void> Optimizer::remake() {
  undecided_ = false;
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
  slots_.clear();
  flat_.clear();
  for (const auto& unit : model_.units()) {
    if (!unit.trainable()) break;  // they stand behind all others
    flat_.push_back(unit.master().detach());
    flat_.back().mutable_grad() = unit.gradient_slice();
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

// State is made here and not in the first step, so that a checkpoint can be loaded before it.
void Optimizer::use_adamw(const AdamW& method) {
  auto options = torch::optim::AdamWOptions(learning_rate())
                     .betas({method.beta1, method.beta2})
                     .eps(method.epsilon)
                     .weight_decay(method.weight_decay);
  torch_ = std::make_unique<torch::optim::AdamW>(flat_, options);
  slots_ = {{"exp_avg", zeros_like_slices()}, {"exp_avg_sq", zeros_like_slices()}};
  for (std::size_t i = 0; i < flat_.size(); ++i) {
    auto state = std::make_unique<torch::optim::AdamWParamState>();
    state->exp_avg(slots_[0].flat[i]).exp_avg_sq(slots_[1].flat[i]);
    torch_->state()[flat_[i].unsafeGetTensorImpl()] = std::move(state);
  }
}

void Optimizer::use_sgd(const Sgd& method) {
  auto options = torch::optim::SGDOptions(learning_rate())
                     .momentum(method.momentum)
                     .weight_decay(method.weight_decay);
  torch_ = std::make_unique<torch::optim::SGD>(flat_, options);
  if (method.momentum == 0) return;
  slots_ = {{"momentum", zeros_like_slices()}};
  for (std::size_t i = 0; i < flat_.size(); ++i) {
    auto state = std::make_unique<torch::optim::SGDParamState>();
    state->momentum_buffer(slots_[0].flat[i]);
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

void Optimizer::set_decided(std::int64_t decided) {
  decided_ = decided;
  undecided_ = false;
}

void Optimizer::set_steps(std::int64_t steps) {
  steps_ = steps;
  if (!std::holds_alternative<AdamW>(options_.method)) return;
  for (auto& [key, state] : torch_->state())
    static_cast<torch::optim::AdamWParamState&>(*state).step(steps);
}

Result<std::vector<NamedTensor>> Optimizer::flat_state() {
  std::vector<NamedTensor> tensors;
  for (const auto& slot : slots_)
    for (const auto& tensor : slot.flat) tensors.push_back({slot.name, tensor});
  return tensors;
}

std::vector<OwnedTensor> Optimizer::state() const {
  std::vector<OwnedTensor> owned;
  const auto& layout = model_.layout();
  for (const auto& slot : slots_)
    for (std::size_t i = 0; i < layout.parameters.size(); ++i) {
      const auto& place = layout.parameters[i];
      if (!place.spec.trainable) continue;
      const auto& flat = slot.flat[static_cast<std::size_t>(place.unit)];
      owned.push_back({format("{}/{}", slot.name, place.spec.name), place.spec.shape, place.owned,
                       Unit::owned(flat, layout, static_cast<int>(i)), /*copies_equal=*/true,
                       /*steady=*/true});
    }
  return owned;
}

Result<Step> Optimizer::step() {
  TRY(model_.status());
  undecided_ = true;
  const double norm = TRY(agree_on_norm(model_));
  const auto step = TRY(take(norm));
  if (!step.taken) return explain(step);
  not_taken_ = 0;
  model_.forget_looks();
  TRY(model_.begin_spread());
  return step;
}

// The decision stands, whether or not all ranks live to hear who was to blame.
Result<Step> Optimizer::explain(Step step) {
  step.not_finite = TRY(model_.first_not_finite());
  model_.forget_looks();
  if (++not_taken_ < options_.not_taken_max) return step;
  return Error{Code::invalid, format("{} steps in a row were not taken; in the last {}", not_taken_,
                                     step.not_finite->words())};
}

Result<void> Optimizer::catch_up(double norm) {
  LS_CHECK(undecided_);
  TRY(take(norm));
  return {};
}

Result<Step> Optimizer::take(double norm) {
  const at::NoGradGuard no_grad;
  model_.readers()->await();
  undecided_ = false;
  ++decided_;
  last_norm_ = norm;
  if (!std::isfinite(norm)) return Step{.taken = false, .gradient_norm = norm};
  try {
    if (options_.clip_norm && norm > *options_.clip_norm)
      scale_gradients(model_, *options_.clip_norm / norm);
    torch_->step();
  } catch (const std::exception& exception) {
    return torch_error(exception);
  }
  ++steps_;
  return Step{.taken = true, .gradient_norm = norm};
}

}  // namespace lockstep
