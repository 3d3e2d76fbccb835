#include "train/autograd_engine.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include <ATen/core/grad_mode.h>
#include <ATen/ops/_amp_foreach_non_finite_check_and_unscale.h>
#include <ATen/record_function.h>
#include <c10/core/StorageImpl.h>
#include <c10/util/Exception.h>
#include <torch/csrc/autograd/engine.h>
#include <torch/nn/module.h>

#include "base/check.h"
#include "base/format.h"
#include "train/optimizer/gradient_norm.h"

namespace lockstep::train {
namespace {

// Reports errors as exceptions, the only form that autograd supports.
void raise_within_autograd(const Result<void>& outcome) {
  if (outcome) return;
  const auto& error = outcome.error();
  if (error.code == Code::invalid) C10_THROW_ERROR(ValueError, error.message);
  C10_THROW_ERROR(DistBackendError, error.message);
}

// Makes `tensor` another view, of another shape, type and memory, below autograd: set_data() would
// make autograd forget the hooks that wait for its gradient.
void rebind_tensor(const at::Tensor& tensor, const at::Tensor& other) {
  tensor.unsafeGetTensorImpl()->shallow_copy_from(other.getIntrusivePtr());
}

// Does not read the memory, which may be released.
bool same_storage(const at::Tensor& a, const at::Tensor& b) {
  return a.storage().unsafeGetStorageImpl() == b.storage().unsafeGetStorageImpl();
}

}  // namespace

struct AutogradEngine::Hooks {
  AutogradEngine* model;
  std::vector<std::pair<at::Tensor, unsigned>> installed;

  ~Hooks() {
    for (auto& [parameter, number] : installed) parameter.remove_hook(number);
  }
};

Result<std::unique_ptr<AutogradEngine>> AutogradEngine::create(
    std::shared_ptr<torch::nn::Module> module, Mesh mesh, const Policy& policy,
    std::vector<torch::nn::Module*> blocks, InitialValues values) {
  std::unique_ptr<AutogradEngine> engine(new AutogradEngine);
  engine->model_ = TRY(shard(*module, std::move(mesh), policy, blocks, values));
  engine->module_ = std::move(module);
  engine->entered_.resize(blocks.size(), ParameterSpec::kRoot);
  engine->blocks_ = std::move(blocks);
  engine->install_hooks();
  return engine;
}

AutogradEngine::~AutogradEngine() = default;

void AutogradEngine::install_hooks() {
  hooks_ = std::make_shared<Hooks>(Hooks{this, {}});
  for (const auto& [name, tensor] : model_->parameters()) {
    const auto number =
        tensor.register_hook([hooks = std::weak_ptr(hooks_)](const at::TensorBase&) {
          if (const auto here = hooks.lock()) here->model->begin_backward();
        });
    hooks_->installed.emplace_back(tensor, number);
  }
}

Result<void> AutogradEngine::check() const {
  TRY(model_->status());
  if (model_->in_backward())
    return Error{Code::invalid,
                 "the last backward ended with an error, and the ranks may be out of step: go on "
                 "from a checkpoint"};
  if (!swapped_.empty())
    return Error{Code::invalid,
                 "the last optimizer.step() ended with an error: go on from a checkpoint"};
  const auto& parameters = model_->parameters();
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    const auto& [name, tensor] = parameters[i];
    const auto& whole = model_->unit_of(i).whole();
    if (!same_storage(tensor, whole) || tensor.scalar_type() != whole.scalar_type())
      return Error{Code::invalid, format("parameter {} was moved, cast or given other data after "
                                         "lockstep.shard: do that before, and load values by "
                                         "lockstep.load_state_dict",
                                         name)};
    if (!tensor.requires_grad())
      return Error{
          Code::invalid,
          format("parameter {} was frozen after lockstep.shard: set requires_grad before", name)};
  }
  return {};
}

Result<void> AutogradEngine::pre_forward(int block, const std::vector<at::Tensor>& inputs) {
  const auto i = static_cast<std::size_t>(block);
  entered_[i] = model_->pre_forward(*blocks_[i], inputs);
  return model_->status();
}

Result<void> AutogradEngine::post_forward(int block, const std::vector<at::Tensor>& outputs) {
  const auto i = static_cast<std::size_t>(block);
  model_->post_forward(std::exchange(entered_[i], ParameterSpec::kRoot), outputs);
  model_->check_finite(*blocks_[i], outputs);
  return model_->status();
}

bool AutogradEngine::gradients_were_dropped() const {
  const auto& parameters = model_->parameters();
  return std::none_of(parameters.begin(), parameters.end(),
                      [](const auto& one) { return one.tensor.grad().defined(); });
}

// Called by autograd, at the first parameter that gets a gradient and every other one.
void AutogradEngine::begin_backward() {
  if (model_->in_backward()) return;
  const at::NoGradGuard no_grad;
  if (gradient_state_ == GradientState::stepped || gradients_were_dropped()) {
    model_->forget_gradients();
    gradient_state_ = GradientState::none;
  }
  if (gradient_state_ == GradientState::complete || gradient_state_ == GradientState::agreed)
    raise_within_autograd(Error{
        Code::invalid,
        "a second backward before optimizer.step(): run all micro-steps of a step but the last "
        "under `with lockstep.no_sync(model):`, or drop gradients that are not to be stepped by "
        "optimizer.zero_grad()"});
  raise_within_autograd(check());
  show_gradients();
  raise_within_autograd(model_->begin_backward(sync_, GradientAccumulation::sum));
  torch::autograd::Engine::get_default_engine().queue_callback([hooks = std::weak_ptr(hooks_)] {
    if (const auto here = hooks.lock()) here->model->end_backward();
  });
}

void AutogradEngine::end_backward() {
  const at::NoGradGuard no_grad;
  auto outcome = model_->end_backward();
  gradient_state_ = GradientState::partial;
  if (outcome && sync_ == Sync::now) {
    outcome = model_->finish_gradients();
    gradient_state_ = GradientState::complete;
  }
  raise_within_autograd(outcome);
  hide_gradients();
}

// Hides a rank's partial gradients, so that they are not used as complete ones. A profiler would
// look for their data, which raises.
void AutogradEngine::hide_gradients() {
  const at::DisableRecordFunctionGuard unrecorded;
  const bool summing =
      gradient_state_ == GradientState::partial && model_->mesh().shard().size() == 1;
  if (summing || slices_are_whole()) return;
  for (std::size_t i = 0; i < hidden_.size(); ++i)
    model_->parameters()[i].tensor.mutable_grad() = hidden_[i];
}

void AutogradEngine::show_gradients() {
  for (std::size_t i = 0; i < hidden_.size(); ++i) {
    auto& gradient = model_->parameters()[i].tensor.mutable_grad();
    if (gradient.is_same(hidden_[i])) gradient.reset();
  }
}

void AutogradEngine::set_hidden_gradients(std::vector<at::Tensor> hidden) {
  LS_CHECK(hidden.size() == model_->parameters().size());
  hidden_ = std::move(hidden);
}

Result<void> AutogradEngine::unscale_gradients(const std::vector<std::size_t>& parameters,
                                               at::Tensor found_inf,
                                               const at::Tensor& inverse_scale) {
  if (model_->parameter_worker() != nullptr)
    return Error{Code::invalid,
                 "parameter servers take no loss scaler: use bfloat16, which needs none"};
  if (gradient_state_ == GradientState::none || gradient_state_ == GradientState::partial)
    return Error{
        Code::invalid,
        "a loss scaler needs complete gradients: run the step's last micro-step outside of "
        "lockstep.no_sync()"};
  const at::NoGradGuard no_grad;
  std::vector<at::Tensor> slices;
  for (const auto parameter : parameters)
    slices.push_back(Unit::owned_view(model_->unit_of(parameter).gradient_slice(), model_->layout(),
                                      static_cast<int>(parameter)));
  at::_amp_foreach_non_finite_check_and_unscale_(slices, found_inf, inverse_scale);
  auto& world = model_->mesh().world();
  return world.all_reduce(found_inf.view(1), ReduceOp::max, "the loss scaler's found_inf").wait();
}

bool AutogradEngine::slices_are_whole() const {
  const auto& unit = model_->units().front();
  return unit.slice().numel() == unit.whole().numel();
}

Result<void> AutogradEngine::check_gradients() const {
  TRY(check());
  if (gradient_state_ == GradientState::partial)
    return Error{Code::invalid,
                 "optimizer.step() after a backward under lockstep.no_sync(): run the step's last "
                 "micro-step outside of it"};
  if (gradient_state_ == GradientState::none || gradients_were_dropped())
    return Error{Code::invalid, "optimizer.step() without gradients: call loss.backward() first"};
  return {};
}

Result<StepOutcome> AutogradEngine::begin_step(std::optional<double> clip_norm) {
  model_->snapshot_copies()->wait();
  const bool agreed =
      gradient_state_ == GradientState::agreed || gradient_state_ == GradientState::stepped;
  if (agreed && !clip_norm && (!agreed_step_.taken || !gradients_were_dropped()))
    return agreed_step_;
  TRY(check_gradients());
  clip_norm_ = clip_norm;
  set_decision(TRY(global_gradient_norm(*model_)));
  // The decision is final, even if a rank is lost before all ranks know which one had the value.
  if (!agreed_step_.taken) agreed_step_.non_finite = TRY(model_->find_first_non_finite());
  model_->clear_finite_checks();
  return agreed_step_;
}

void AutogradEngine::set_decision(double norm) {
  if (gradient_state_ == GradientState::complete)
    ++decided_steps_;  // a later call must not clip again
  agreed_step_ = {.taken = std::isfinite(norm), .gradient_norm = norm};
  const bool clips = agreed_step_.taken && clip_norm_ && norm > *clip_norm_;
  if (clips) scale_gradients(*model_, *clip_norm_ / norm);
  report_.scale = !agreed_step_.taken ? 0 : clips ? *clip_norm_ / norm : 1;
  report_is_due_ = true;
  gradient_state_ = GradientState::agreed;
}

void AutogradEngine::begin_update(bool has_gradients) {
  LS_CHECK(model_->parameter_server() != nullptr);
  gradient_state_ = GradientState::agreed;
  agreed_step_ = {.taken = has_gradients};
  // A parameter with a gradient is one to step; the gradient of its slice replaces it.
  for (std::size_t i = 0; i < hidden_.size(); ++i)
    model_->parameters()[i].tensor.mutable_grad() = hidden_[i];
}

void AutogradEngine::set_missed_decision(double norm) {
  LS_CHECK(awaits_decision());
  set_decision(norm);
  is_local_step_ = true;
}

void AutogradEngine::discard_step() {
  std::fill(entered_.begin(), entered_.end(), ParameterSpec::kRoot);
  drop_gradients();
  sync_ = Sync::now;
  gradient_state_ = GradientState::none;
  is_local_step_ = false;
}

void AutogradEngine::swap_in_slice(std::size_t parameter) {
  const auto& layout = model_->layout();
  const auto& parameter_layout = layout.parameters[parameter];
  const auto& unit = model_->unit_of(parameter);
  auto slice = Unit::owned_view(unit.master(), layout, static_cast<int>(parameter));
  auto gradient = Unit::owned_view(unit.master_gradient(), layout, static_cast<int>(parameter));
  if (slices_are_whole()) {
    slice = slice.view(parameter_layout.spec.shape);
    gradient = gradient.view(parameter_layout.spec.shape);
  }
  swap_in(parameter, slice, parameter_layout.owned.size() > 0 ? gradient : at::Tensor());
}

void AutogradEngine::swap_in(std::size_t parameter, const at::Tensor& value,
                             const at::Tensor& gradient) {
  const auto& tensor = model_->parameters()[parameter].tensor;
  tensor.mutable_grad() = gradient;
  swapped_.push_back({parameter, tensor.variable_data()});
  rebind_tensor(tensor, value);
}

Result<void> AutogradEngine::swap_in_whole(std::vector<OwnedParameter> parameters) {
  if (!whole_parameters_) whole_parameters_ = TRY(WholeParameters::create(*model_));
  owned_whole_ = TRY(whole_parameters_->gather(parameters));
  for (const auto& [parameter, owner] : parameters)
    model_->parameters()[parameter].tensor.mutable_grad().reset();
  for (const auto& [parameter, whole] : owned_whole_)
    swap_in(parameter, whole.value, whole.gradient);
  swapped_whole_ = std::move(parameters);
  return {};
}

Result<void> AutogradEngine::return_whole_parameters() {
  const auto parameters = std::exchange(swapped_whole_, {});
  const auto owned = std::exchange(owned_whole_, {});
  if (parameters.empty()) return {};
  return whole_parameters_->return_values(parameters, owned);
}

void AutogradEngine::drop_gradients() {
  for (const auto& [name, tensor] : model_->parameters()) tensor.mutable_grad().reset();
}

Result<void> AutogradEngine::end_step() {
  for (const auto& [parameter, before] : swapped_) {
    const auto& tensor = model_->parameters()[parameter].tensor;
    rebind_tensor(tensor, before);
    if (!slices_are_whole()) tensor.mutable_grad().reset();
  }
  swapped_.clear();
  TRY(return_whole_parameters());
  gradient_state_ = GradientState::stepped;
  if (model_->parameter_server() != nullptr) return {};
  if (model_->parameter_worker() != nullptr) return exchange_with_servers();
  if (!agreed_step_.taken || std::exchange(is_local_step_, false)) return {};
  // Only their own blocks read divided parameters, and a block waits for them.
  return model_->policy().parameters > 1 ? model_->begin_parameter_sync()
                                         : model_->sync_parameters();
}

// Once a step, if several optimizers step the model. Blocks wait for their parameters.
Result<void> AutogradEngine::exchange_with_servers() {
  if (!std::exchange(report_is_due_, false)) return {};
  TRY(model_->parameter_worker()->finish_step(report_));
  return model_->begin_parameter_sync();
}

OwnedTensor AutogradEngine::owned_like(const std::string& name, std::size_t parameter,
                                       at::Tensor tensor) const {
  const auto& parameter_layout = model_->layout().parameters[parameter];
  LS_CHECK(tensor.numel() == parameter_layout.owned.size());
  return {name,
          parameter_layout.spec.shape,
          parameter_layout.owned,
          std::move(tensor),
          /*copies_equal=*/true,
          /*stable_between_steps=*/true};
}

}  // namespace lockstep::train
