// ModuleTensors: the tensors of a module: trainable parameters, frozen parameters, and buffers,
// each under the module's own name for it.
#pragma once

#include <string>
#include <vector>

#include <ATen/core/Tensor.h>

#include "base/result.h"
#include "train/engine/blocks.h"
#include "train/engine/layout.h"

namespace torch::nn {
class Module;
}

namespace lockstep::train {

struct NamedTensor {
  std::string name;
  at::Tensor tensor;
};

// A shared tensor is listed once, under its first name.
struct ModuleTensors {
  // Makes frozen ones and buffers contiguous. Refuses a module without a trainable parameter.
  // Refuses trainable ones that are not dense leaves, are on several devices, or have a model
  // already.
  static Result<ModuleTensors> of(torch::nn::Module& module);

  // Removes the frozen parameters that can lie in a unit's flat buffer, which belong to their
  // block.
  void divide_frozen(const Blocks& blocks);
  // The trainable ones, then these frozen ones.
  std::vector<ParameterSpec> specs(const Blocks& blocks,
                                   const std::vector<NamedTensor>& of_frozen) const;
  at::Device device() const { return trainable.front().tensor.device(); }

  std::vector<NamedTensor> trainable;
  std::vector<NamedTensor> frozen;
  std::vector<NamedTensor> divided_frozen;
  std::vector<NamedTensor> buffers;
};

// True if a module has a parameter that requires a gradient.
bool is_trainable(const torch::nn::Module& module);

}  // namespace lockstep::train
