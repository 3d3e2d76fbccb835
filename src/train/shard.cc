#include "train/shard.h"

#include <algorithm>
#include <functional>
#include <unordered_set>
#include <utility>

#include <ATen/core/grad_mode.h>
#include <torch/csrc/autograd/autograd.h>
#include <torch/csrc/autograd/function_hook.h>
#include <torch/csrc/autograd/node.h>
#include <torch/csrc/autograd/variable.h>
#include <torch/nn/module.h>

#include "base/check.h"
#include "base/format.h"

namespace lockstep {
namespace {

namespace autograd = torch::autograd;

// Runs after autograd has added to a parameter's gradient.
class ReadyHook : public autograd::FunctionPostHook {
 public:
  explicit ReadyHook(std::function<void()> ready) : ready_(std::move(ready)) {}
  autograd::variable_list operator()(const autograd::variable_list& outputs,
                                     const autograd::variable_list&) override {
    ready_();
    return outputs;
  }

 private:
  std::function<void()> ready_;
};

bool has_hook(autograd::Node& accumulator) {
  return std::any_of(accumulator.post_hooks().begin(), accumulator.post_hooks().end(),
                     [](auto& hook) { return dynamic_cast<ReadyHook*>(hook.get()) != nullptr; });
}

ParameterSpec spec_of(const NamedTensor& parameter) {
  const auto& tensor = parameter.tensor;
  return {parameter.name, tensor.sizes().vec(), tensor.scalar_type()};
}

std::vector<at::Tensor> tensors_of(const std::vector<NamedTensor>& named) {
  std::vector<at::Tensor> tensors;
  for (const auto& [name, tensor] : named) tensors.push_back(tensor);
  return tensors;
}

Result<void> check_trainable(const NamedTensor& parameter, const at::Tensor& first) {
  const auto& [name, tensor] = parameter;
  if (!tensor.is_leaf() || tensor.layout() != at::kStrided)
    return Error{Code::invalid, format("parameter {} is not a dense leaf tensor", name)};
  if (tensor.device() != first.device())
    return Error{Code::invalid, format("parameter {} is on {}, others on {}: move the module to "
                                       "one device first",
                                       name, tensor.device().str(), first.device().str())};
  if (has_hook(*autograd::impl::grad_accumulator(tensor)))
    return Error{Code::already_exists,
                 format("parameter {} is sharded already: call shard once a module", name)};
  return {};
}

}  // namespace

// The accumulators are kept because a parameter holds its own only weakly.
struct ShardedModel::Hooks {
  struct Installed {
    c10::intrusive_ptr<autograd::Node> accumulator;
    std::uintptr_t key;
  };
  std::vector<Installed> installed;

  ~Hooks() {
    for (auto& [accumulator, key] : installed) accumulator->del_post_hook(key);
  }
};

Result<std::unique_ptr<ShardedModel>> shard(torch::nn::Module& module, Mesh mesh,
                                            const Policy& policy) {
  TRY(check(policy, mesh));
  std::unique_ptr<ShardedModel> model(new ShardedModel(std::move(mesh)));
  std::unordered_set<const at::TensorImpl*> seen;
  for (const auto& item : module.named_parameters()) {
    if (!seen.insert(item.value().unsafeGetTensorImpl()).second) continue;
    auto& list = item.value().requires_grad() ? model->parameters_ : model->frozen_;
    list.push_back({item.key(), item.value()});
  }
  for (const auto& item : module.named_buffers())
    model->buffers_.push_back({item.key(), item.value()});
  TRY(model->build(policy));
  return model;
}

ShardedModel::ShardedModel(Mesh mesh) : mesh_(std::move(mesh)) {}
ShardedModel::~ShardedModel() = default;

Result<void> ShardedModel::build(const Policy& policy) {
  if (parameters_.empty())
    return Error{Code::invalid, "the module has no parameter that requires a gradient"};
  std::vector<ParameterSpec> specs;
  for (const auto& parameter : parameters_) {
    TRY(check_trainable(parameter, parameters_.front().tensor));
    specs.push_back(spec_of(parameter));
  }
  layout_ = Layout::build(std::move(specs), policy);
  for (std::size_t i = 0; i < layout_.units.size(); ++i)
    units_.push_back(TRY(
        Unit::create(layout_, static_cast<int>(i), tensors_of(parameters_), mesh_.replicate())));
  TRY(equalize());
  install_hooks();
  return {};
}

Result<void> ShardedModel::equalize() {
  std::vector<NamedTensor> sent;
  for (const auto& unit : units_)
    sent.push_back({format("parameters of unit {}", unit.index()), unit.flat_parameters()});
  for (const auto* list : {&frozen_, &buffers_})
    for (const auto& [name, tensor] : *list) sent.push_back({name, tensor.detach()});

  for (const auto& [name, tensor] : sent) {
    auto dense = tensor.contiguous();
    TRY(mesh_.replicate().broadcast(dense, 0, name).wait());
    if (!dense.is_same(tensor)) tensor.copy_(dense);
  }
  return {};
}

void ShardedModel::install_hooks() {
  hooks_ = std::make_unique<Hooks>();
  ready_.resize(parameters_.size());
  for (std::size_t i = 0; i < parameters_.size(); ++i) {
    auto accumulator = autograd::impl::grad_accumulator(parameters_[i].tensor);
    auto hook = std::make_unique<ReadyHook>([this, i] { gradient_ready(i); });
    const auto key = accumulator->add_post_hook(std::move(hook));
    hooks_->installed.push_back({std::move(accumulator), key});
  }
}

Result<void> ShardedModel::backward(const at::Tensor& loss, Sync sync) {
  if (phase_ == Phase::reducing)
    return Error{Code::invalid,
                 "backward after backward(loss, Sync::now): call finish_gradients() first"};
  for (auto& unit : units_) unit.attach_gradients();
  if (phase_ == Phase::finished) {
    for (auto& unit : units_) unit.zero_gradients();
    micro_steps_ = 0;
  }
  ++micro_steps_;
  phase_ = Phase::accumulating;
  if (sync == Sync::later) return run_backward(loss);

  phase_ = Phase::reducing;
  std::fill(ready_.begin(), ready_.end(), false);
  arrived_twice_.clear();
  for (auto& unit : units_) unit.expect_all();
  TRY(run_backward(loss));
  // What backward did not reach keeps the gradient it had: zero, or that of earlier micro-steps.
  for (std::size_t i = 0; i < ready_.size(); ++i)
    if (!ready_[i]) gradient_ready(i);
  if (!arrived_twice_.empty())
    return Error{Code::invalid, format("the gradient of {} arrived twice in one backward: is its "
                                       "layer recomputed by a nested backward?",
                                       arrived_twice_)};
  return {};
}

Result<void> ShardedModel::run_backward(const at::Tensor& loss) {
  try {
    autograd::backward({loss}, {});
  } catch (const std::exception& exception) {
    const std::string message = exception.what();
    return Error{Code::invalid, "backward: " + message.substr(0, message.find('\n'))};
  }
  return {};
}

// Called by autograd on the thread that runs backward.
void ShardedModel::gradient_ready(std::size_t parameter) {
  if (phase_ != Phase::reducing) return;
  if (ready_[parameter]) {
    arrived_twice_ = parameters_[parameter].name;
    return;
  }
  ready_[parameter] = true;
  units_[static_cast<std::size_t>(layout_.parameters[parameter].unit)].arrived();
  start_complete_units();
}

void ShardedModel::start_complete_units() {
  const at::NoGradGuard no_grad;
  while (reductions_.size() < units_.size() && units_[reductions_.size()].complete()) {
    auto& unit = units_[reductions_.size()];
    auto gradients = unit.flat_gradients();
    // Divided before the sum, which keeps it in the range of half precision.
    const int parts = mesh_.replicate().size() * micro_steps_;
    if (parts > 1) gradients.div_(parts);
    reductions_.push_back(mesh_.replicate().reduce(gradients, Reduction::sum,
                                                   format("gradients of unit {}", unit.index())));
  }
}

Result<void> ShardedModel::finish_gradients() {
  if (phase_ != Phase::reducing)
    return Error{Code::invalid,
                 "finish_gradients without backward(loss, Sync::now): nothing is being reduced"};
  // All are waited for, so that none still writes when the first error is told.
  Result<void> outcome;
  for (auto& reduction : reductions_) {
    auto done = reduction.wait();
    if (outcome && !done) outcome = std::move(done);
  }
  reductions_.clear();
  phase_ = Phase::finished;
  return outcome;
}

}  // namespace lockstep
