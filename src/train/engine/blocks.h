// Blocks: the parts of a module that the user names to be gathered one at a time, such as the
// layers of a transformer.
#pragma once

#include <functional>
#include <string>
#include <unordered_map>
#include <vector>

#include <ATen/core/Tensor.h>

#include "base/result.h"

namespace torch::nn {
class Module;
}

namespace lockstep::train {

class Blocks {
 public:
  // Refuses a block that is not part of the module, is listed twice or is within another block. If
  // none is named, the blocks are a torch::nn::Sequential's children that have parameters.
  static Result<Blocks> create(torch::nn::Module& module,
                               const std::vector<torch::nn::Module*>& named);

  int count() const { return static_cast<int>(names_.size()); }
  const std::string& name(int block) const { return names_[static_cast<std::size_t>(block)]; }
  // ParameterSpec::kRoot if the module is not a block.
  int index_of(const torch::nn::Module& module) const;
  // The block that owns the parameter; kRoot if no block or several blocks do.
  int block_of(const at::Tensor& parameter) const;
  bool is_shared(const at::Tensor& parameter) const;

 private:
  std::vector<std::string> names_;
  std::unordered_map<const torch::nn::Module*, int> indices_;
  std::unordered_map<const at::TensorImpl*, int> owners_;
};

// A child of a torch::nn::Sequential, and how to run it.
struct SequentialChild {
  torch::nn::Module* module;
  std::function<at::Tensor(const at::Tensor&)> forward;
};

// Empty if it is no Sequential.
std::vector<SequentialChild> sequential_children(torch::nn::Module& module);

}  // namespace lockstep::train
