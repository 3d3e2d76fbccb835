#include "train/engine/blocks.h"

#include <utility>

#include <torch/nn/module.h>
#include <torch/nn/modules/container/sequential.h>

#include "base/format.h"
#include "train/engine/layout.h"

namespace lockstep::train {
namespace {

using Modules = std::vector<torch::nn::Module*>;

std::unordered_map<const torch::nn::Module*, std::string> names_within(torch::nn::Module& module) {
  std::unordered_map<const torch::nn::Module*, std::string> names;
  for (const auto& item : module.named_modules("", /*include_self=*/false))
    names.emplace(item.value().get(), item.key());
  return names;
}

Modules children_with_parameters(torch::nn::Module& module) {
  Modules children;
  for (const auto& stage : sequential_children(module))
    if (!stage.module->parameters().empty()) children.push_back(stage.module);
  return children;
}

}  // namespace

Result<Blocks> Blocks::create(torch::nn::Module& module, const Modules& named) {
  const auto names = names_within(module);
  const auto& modules = named.empty() ? children_with_parameters(module) : named;
  Blocks blocks;
  for (std::size_t i = 0; i < modules.size(); ++i) {
    const auto name = modules[i] ? names.find(modules[i]) : names.end();
    if (name == names.end())
      return Error{Code::invalid, format("unit {} of {} is no part of the module that is sharded: "
                                         "name its own submodules",
                                         i + 1, modules.size())};
    const int block = blocks.count();
    if (!blocks.indices_.emplace(modules[i], block).second)
      return Error{Code::invalid, format("unit {} is listed twice: name it once", name->second)};
    blocks.names_.push_back(name->second);
    for (const auto& parameter : modules[i]->parameters()) {
      const auto owner = blocks.owners_.emplace(parameter.unsafeGetTensorImpl(), block).first;
      if (owner->second != block) owner->second = ParameterSpec::kRoot;
    }
  }
  for (auto* outer : modules)
    for (const auto& inner : outer->modules(/*include_self=*/false))
      if (blocks.indices_.count(inner.get()) != 0)
        return Error{Code::invalid, format("unit {} lies within unit {}: name one of them",
                                           names.at(inner.get()), names.at(outer))};
  return blocks;
}

int Blocks::index_of(const torch::nn::Module& module) const {
  const auto found = indices_.find(&module);
  return found == indices_.end() ? ParameterSpec::kRoot : found->second;
}

int Blocks::block_of(const at::Tensor& parameter) const {
  const auto found = owners_.find(parameter.unsafeGetTensorImpl());
  return found == owners_.end() ? ParameterSpec::kRoot : found->second;
}

bool Blocks::is_shared(const at::Tensor& parameter) const {
  const auto found = owners_.find(parameter.unsafeGetTensorImpl());
  return found != owners_.end() && found->second == ParameterSpec::kRoot;
}

std::vector<SequentialChild> sequential_children(torch::nn::Module& module) {
  std::vector<SequentialChild> stages;
  auto* sequential = dynamic_cast<torch::nn::SequentialImpl*>(&module);
  if (!sequential) return stages;
  for (auto& child : *sequential)
    stages.push_back({child.ptr().get(),
                      [&child](const at::Tensor& x) { return child.forward<at::Tensor>(x); }});
  return stages;
}

}  // namespace lockstep::train
