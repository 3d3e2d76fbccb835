// Snapshot: a copy in memory of what this rank will write, laid out as its file will be. Taking it
// is what holds the training up; its memory is used again by the next.
#pragma once

#include <string_view>
#include <vector>

#include <ATen/core/Tensor.h>

#include "train/checkpoint/plan.h"

namespace lockstep {

class Snapshot {
 public:
  // The tensors have the plan's form.
  void take(const SavePlan& plan, const std::vector<OwnedTensor>& tensors);
  std::string_view bytes() const;

 private:
  at::Tensor bytes_;
};

}  // namespace lockstep
