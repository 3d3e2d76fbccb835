#include "train/hooked.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include <ATen/core/grad_mode.h>
#include <ATen/ops/zeros.h>
#include <c10/core/StorageImpl.h>
#include <c10/util/Exception.h>
#include <torch/csrc/autograd/engine.h>
#include <torch/nn/module.h>

#include "base/check.h"
#include "base/format.h"
#include "train/agreement.h"

namespace lockstep {
namespace {

// Autograd calls us, and knows exceptions only.
void raise_within_autograd(const Result<void>& outcome) {
  if (outcome) return;
  const auto& error = outcome.error();
  if (error.code == Code::invalid) C10_THROW_ERROR(ValueError, error.message);
  C10_THROW_ERROR(DistBackendError, error.message);
}

// Makes `tensor` another view, of another shape, type and memory, below autograd: set_data() would
// make autograd forget the hooks that wait for its gradient.
void become(const at::Tensor& tensor, const at::Tensor& other) {
  tensor.unsafeGetTensorImpl()->shallow_copy_from(other.getIntrusivePtr());
}

// Asks nothing of the memory, which may not be there.
bool same_storage(const at::Tensor& a, const at::Tensor& b) {
  return a.storage().unsafeGetStorageImpl() == b.storage().unsafeGetStorageImpl();
}

const Unit& unit_of(const ShardedModel& model, std::size_t parameter) {
  const auto unit = model.layout().parameters[parameter].unit;
  return model.units()[static_cast<std::size_t>(unit)];
}

// Without memory, but as large as the largest parameter: so operations that write to a gradient, as
// torch.amp.GradScaler does, meet this error, and none that is about overlapping elements.
at::Tensor hidden_gradient(const std::vector<NamedTensor>& parameters) {
  std::int64_t elements = 1;
  for (const auto& parameter : parameters) elements = std::max(elements, parameter.tensor.numel());
  const auto hidden = at::empty({0});
  auto* storage = hidden.storage().unsafeGetStorageImpl();
  storage->set_nbytes(static_cast<std::size_t>(elements * hidden.element_size()));
  storage->release_data_and_set_meta_custom_data_ptr_error_msg_(
      "gradients are divided among the ranks, and this one does not have them: clip by "
      "lockstep.clip_grad_norm_(model.parameters(), max_norm); optimizer.step() finds them. "
      "torch.amp.GradScaler cannot scale them: train in bfloat16, which needs no scaler, or with "
      "policy ddp");
  return hidden.as_strided({elements}, {1});
}

}  // namespace

struct HookedModel::Hooks {
  HookedModel* model;
  std::vector<std::pair<at::Tensor, unsigned>> installed;

  ~Hooks() {
    for (auto& [parameter, number] : installed) parameter.remove_hook(number);
  }
};

Result<std::unique_ptr<HookedModel>> HookedModel::create(std::shared_ptr<torch::nn::Module> module,
                                                         Mesh mesh, const Policy& policy,
                                                         std::vector<torch::nn::Module*> blocks,
                                                         Values values) {
  std::unique_ptr<HookedModel> hooked(new HookedModel);
  hooked->model_ = TRY(shard(*module, std::move(mesh), policy, blocks, values));
  hooked->module_ = std::move(module);
  hooked->entered_.resize(blocks.size(), ParameterSpec::kRoot);
  hooked->blocks_ = std::move(blocks);
  hooked->hidden_ = hidden_gradient(hooked->model_->parameters());
  hooked->install_hooks();
  return hooked;
}

HookedModel::~HookedModel() = default;

void HookedModel::install_hooks() {
  hooks_ = std::make_shared<Hooks>(Hooks{this, {}});
  for (const auto& [name, tensor] : model_->parameters()) {
    const auto number =
        tensor.register_hook([hooks = std::weak_ptr(hooks_)](const at::TensorBase&) {
          if (const auto here = hooks.lock()) here->model->begin_backward();
        });
    hooks_->installed.emplace_back(tensor, number);
  }
}

Result<void> HookedModel::check() const {
  TRY(model_->status());
  if (model_->in_backward())
    return Error{Code::invalid,
                 "the last backward ended with an error, and the ranks may be out of step: go on "
                 "from a checkpoint"};
  if (!lent_.empty())
    return Error{Code::invalid,
                 "the last optimizer.step() ended with an error: go on from a checkpoint"};
  const auto& parameters = model_->parameters();
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    const auto& [name, tensor] = parameters[i];
    const auto& whole = unit_of(*model_, i).whole();
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

Result<void> HookedModel::enter(int block, const std::vector<at::Tensor>& inputs) {
  const auto i = static_cast<std::size_t>(block);
  entered_[i] = model_->enter(*blocks_[i], inputs);
  return model_->status();
}

Result<void> HookedModel::leave(int block, const std::vector<at::Tensor>& outputs) {
  const auto i = static_cast<std::size_t>(block);
  model_->leave(std::exchange(entered_[i], ParameterSpec::kRoot), outputs);
  model_->look(*blocks_[i], outputs);
  return model_->status();
}

bool HookedModel::gradients_were_dropped() const {
  const auto& parameters = model_->parameters();
  return std::none_of(parameters.begin(), parameters.end(),
                      [](const auto& one) { return one.tensor.grad().defined(); });
}

// Called by autograd, at the first parameter that gets a gradient and every other one.
void HookedModel::begin_backward() {
  if (model_->in_backward()) return;
  const at::NoGradGuard no_grad;
  if (stage_ == Stage::stepped || gradients_were_dropped()) {
    model_->forget_gradients();
    stage_ = Stage::none;
  }
  if (stage_ == Stage::complete || stage_ == Stage::agreed)
    raise_within_autograd(Error{
        Code::invalid,
        "a second backward before optimizer.step(): run all micro-steps of a step but the last "
        "under `with lockstep.no_sync(model):`, or drop gradients that are not to be stepped by "
        "optimizer.zero_grad()"});
  raise_within_autograd(check());
  show_gradients();
  raise_within_autograd(model_->begin_backward(sync_, MicroSteps::sum));
  torch::autograd::Engine::get_default_engine().queue_callback([hooks = std::weak_ptr(hooks_)] {
    if (const auto here = hooks.lock()) here->model->end_backward();
  });
}

void HookedModel::end_backward() {
  const at::NoGradGuard no_grad;
  auto outcome = model_->end_backward();
  stage_ = Stage::partial;
  if (outcome && sync_ == Sync::now) {
    outcome = model_->finish_gradients();
    stage_ = Stage::complete;
  }
  raise_within_autograd(outcome);
  hide_gradients();
}

// What a rank has of the gradients must not be taken for all of them.
void HookedModel::hide_gradients() {
  const bool summing = stage_ == Stage::partial && model_->mesh().shard().size() == 1;
  if (summing || slices_are_whole()) return;
  for (const auto& [name, tensor] : model_->parameters())
    tensor.mutable_grad() = hidden_.narrow(0, 0, tensor.numel()).view(tensor.sizes());
}

void HookedModel::show_gradients() {
  for (const auto& [name, tensor] : model_->parameters()) {
    auto& gradient = tensor.mutable_grad();
    if (gradient.defined() && same_storage(gradient, hidden_)) gradient.reset();
  }
}

bool HookedModel::slices_are_whole() const {
  const auto& unit = model_->units().front();
  return unit.slice().numel() == unit.whole().numel();
}

Result<void> HookedModel::check_gradients() const {
  TRY(check());
  if (stage_ == Stage::partial)
    return Error{Code::invalid,
                 "optimizer.step() after a backward under lockstep.no_sync(): run the step's last "
                 "micro-step outside of it"};
  if (stage_ == Stage::none || gradients_were_dropped())
    return Error{Code::invalid, "optimizer.step() without gradients: call loss.backward() first"};
  return {};
}

Result<Step> HookedModel::begin_step(std::optional<double> clip_norm) {
  model_->readers()->await();
  const bool agreed = stage_ == Stage::agreed || stage_ == Stage::stepped;
  if (agreed && !clip_norm && (!agreed_.taken || !gradients_were_dropped())) return agreed_;
  TRY(check_gradients());
  clip_norm_ = clip_norm;
  come_to(TRY(agree_on_norm(*model_)));
  // The decision stands, whether or not all ranks live to hear who was to blame.
  if (!agreed_.taken) agreed_.not_finite = TRY(model_->first_not_finite());
  model_->forget_looks();
  return agreed_;
}

void HookedModel::come_to(double norm) {
  if (stage_ == Stage::complete) ++decided_;  // and not asked to clip once more
  agreed_ = {.taken = std::isfinite(norm), .gradient_norm = norm};
  if (agreed_.taken && clip_norm_ && norm > *clip_norm_)
    scale_gradients(*model_, *clip_norm_ / norm);
  stage_ = Stage::agreed;
}

void HookedModel::decide(double norm) {
  LS_CHECK(undecided());
  come_to(norm);
  alone_ = true;
}

void HookedModel::forget_step() {
  std::fill(entered_.begin(), entered_.end(), ParameterSpec::kRoot);
  drop_gradients();
  sync_ = Sync::now;
  stage_ = Stage::none;
  alone_ = false;
}

void HookedModel::lend(std::size_t parameter) {
  const auto& layout = model_->layout();
  const auto& place = layout.parameters[parameter];
  const auto& unit = unit_of(*model_, parameter);
  const auto& tensor = model_->parameters()[parameter].tensor;
  auto slice = Unit::owned(unit.master(), layout, static_cast<int>(parameter));
  auto gradient = Unit::owned(unit.gradient_slice(), layout, static_cast<int>(parameter));
  if (slices_are_whole()) {
    slice = slice.view(place.spec.shape);
    gradient = gradient.view(place.spec.shape);
  }
  tensor.mutable_grad() = place.owned.size() > 0 ? gradient : at::Tensor();
  lent_.push_back({parameter, tensor.variable_data()});
  become(tensor, slice);
}

void HookedModel::drop_gradients() {
  for (const auto& [name, tensor] : model_->parameters()) tensor.mutable_grad().reset();
}

Result<void> HookedModel::end_step() {
  for (const auto& [parameter, before] : lent_) {
    const auto& tensor = model_->parameters()[parameter].tensor;
    become(tensor, before);
    if (!slices_are_whole()) tensor.mutable_grad().reset();
  }
  lent_.clear();
  stage_ = Stage::stepped;
  if (!agreed_.taken || std::exchange(alone_, false)) return {};
  // Nobody reads divided parameters but their blocks, which wait for them.
  return model_->policy().parameters > 1 ? model_->begin_spread() : model_->spread();
}

OwnedTensor HookedModel::owned_like(const std::string& name, std::size_t parameter,
                                    at::Tensor tensor) const {
  const auto& place = model_->layout().parameters[parameter];
  LS_CHECK(tensor.numel() == place.owned.size());
  return {name,           place.spec.shape, place.owned, std::move(tensor), /*copies_equal=*/true,
          /*steady=*/true};
}

}  // namespace lockstep
