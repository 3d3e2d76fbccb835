#include "train/engine/module_tensors.h"

#include <algorithm>
#include <unordered_set>

#include <torch/nn/module.h>

#include "base/format.h"
#include "train/gradient/gradient_hooks.h"

namespace lockstep::train {
namespace {

ParameterSpec spec_of(const NamedTensor& parameter, const Blocks& blocks) {
  const auto& tensor = parameter.tensor;
  return {parameter.name, tensor.sizes().vec(), tensor.scalar_type(), blocks.block_of(tensor)};
}

Result<void> check_trainable(const NamedTensor& parameter, const at::Tensor& first) {
  const auto& [name, tensor] = parameter;
  if (!tensor.is_leaf() || tensor.layout() != at::kStrided)
    return Error{Code::invalid, format("parameter {} is not a dense leaf tensor", name)};
  if (tensor.device() != first.device())
    return Error{Code::invalid, format("parameter {} is on {}, others on {}: move the module to "
                                       "one device first",
                                       name, tensor.device().str(), first.device().str())};
  if (GradientHooks::are_installed_on(tensor))
    return Error{Code::already_exists,
                 format("parameter {} is sharded already: call shard once a module", name)};
  return {};
}

}  // namespace

Result<ModuleTensors> ModuleTensors::of(torch::nn::Module& module) {
  ModuleTensors tensors;
  std::unordered_set<const at::TensorImpl*> seen;
  for (const auto& item : module.named_parameters()) {
    if (!seen.insert(item.value().unsafeGetTensorImpl()).second) continue;
    auto& list = item.value().requires_grad() ? tensors.trainable : tensors.frozen;
    list.push_back({item.key(), item.value()});
  }
  for (const auto& item : module.named_buffers())
    tensors.buffers.push_back({item.key(), item.value()});
  // A checkpoint stores their elements contiguously.
  for (auto* list : {&tensors.frozen, &tensors.buffers})
    for (auto& [name, tensor] : *list)
      if (!tensor.is_contiguous()) tensor.set_data(tensor.contiguous());
  if (tensors.trainable.empty())
    return Error{Code::invalid, "the module has no parameter that requires a gradient"};
  for (const auto& parameter : tensors.trainable)
    TRY(check_trainable(parameter, tensors.trainable.front().tensor));
  return tensors;
}

void ModuleTensors::divide_frozen(const Blocks& blocks) {
  const auto first = std::stable_partition(frozen.begin(), frozen.end(), [&](const auto& each) {
    return blocks.block_of(each.tensor) == ParameterSpec::kRoot ||
           each.tensor.layout() != at::kStrided || each.tensor.device() != device();
  });
  divided_frozen.assign(first, frozen.end());
  frozen.erase(first, frozen.end());
}

std::vector<ParameterSpec> ModuleTensors::specs(const Blocks& blocks,
                                                const std::vector<NamedTensor>& of_frozen) const {
  std::vector<ParameterSpec> all;
  for (const auto& parameter : trainable) all.push_back(spec_of(parameter, blocks));
  for (const auto& parameter : of_frozen) {
    all.push_back(spec_of(parameter, blocks));
    all.back().trainable = false;
  }
  return all;
}

bool is_trainable(const torch::nn::Module& module) {
  const auto parameters = module.parameters();
  return std::any_of(parameters.begin(), parameters.end(),
                     [](const auto& each) { return each.requires_grad(); });
}

}  // namespace lockstep::train
