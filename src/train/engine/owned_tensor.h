// OwnedTensor: one rank's part of a tensor of the model or the optimizer. Model and optimizer
// return their state in this form, and the checkpoint reads and fills it: so the checkpoint does
// not depend on units, policies and groups.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include <ATen/core/Tensor.h>

#include "train/engine/layout.h"

namespace lockstep::train {

struct OwnedTensor {
  std::string name;                 // of the unsharded tensor: "parameter/head.weight"
  std::vector<std::int64_t> shape;  // global
  // The elements that this rank holds, of the global tensor flattened in row-major order. May be
  // empty.
  Interval owned;
  // Exactly those elements: one-dimensional, contiguous. A view: writing to it sets the state.
  at::Tensor tensor;
  // True if ranks that hold the same elements hold equal values. If not, as for running statistics,
  // the values of the lowest rank are saved.
  bool copies_equal = true;
  // True if it changes only in an optimizer's step, which waits for snapshot copies
  // (snapshot_copies.h).
  bool stable_between_steps = false;
};

}  // namespace lockstep::train
