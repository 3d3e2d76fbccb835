// OwnedTensor: what one rank holds of a tensor of the model or the optimizer. Model and optimizer
// give their state in this form, and the checkpoint takes and fills it: so it needs to know nothing
// of units, policies and groups.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include <ATen/core/Tensor.h>

#include "train/layout.h"

namespace lockstep {

struct OwnedTensor {
  std::string name;                 // of the unsharded tensor: "parameter/head.weight"
  std::vector<std::int64_t> shape;  // global
  // Which elements this rank holds, of the global tensor flattened in row-major order. May be
  // empty.
  Interval owned;
  // Exactly those elements: one-dimensional, contiguous. A view: writing to it sets the state.
  at::Tensor tensor;
  // Whether ranks that hold the same elements hold equal values. Where not, as of running
  // statistics, those of the lowest rank are the ones to save.
  bool copies_equal = true;
  // Whether it changes in an optimizer's step only, which waits for readers (readers.h).
  bool steady = false;
};

}  // namespace lockstep
