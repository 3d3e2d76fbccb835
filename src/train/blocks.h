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

namespace lockstep {

class Blocks {
 public:
  // Refuses what is no part of the module, stands there twice or within another. Where none is
  // named, a torch::nn::Sequential's children that have parameters are.
  static Result<Blocks> create(torch::nn::Module& module,
                               const std::vector<torch::nn::Module*>& named);

  int count() const { return static_cast<int>(names_.size()); }
  const std::string& name(int block) const { return names_[static_cast<std::size_t>(block)]; }
  // ParameterSpec::kRoot if it is none of them.
  int index_of(const torch::nn::Module& module) const;
  // Whose parameter it is; kRoot if nobody's, or of several.
  int owner_of(const at::Tensor& parameter) const;
  bool of_several(const at::Tensor& parameter) const;

 private:
  std::vector<std::string> names_;
  std::unordered_map<const torch::nn::Module*, int> indices_;
  std::unordered_map<const at::TensorImpl*, int> owners_;
};

// A child of a torch::nn::Sequential, and how to run it.
struct Stage {
  torch::nn::Module* module;
  std::function<at::Tensor(const at::Tensor&)> forward;
};

// Empty if it is no Sequential.
std::vector<Stage> stages_of(torch::nn::Module& module);

}  // namespace lockstep
