// Recomputation: a block keeps only the inputs of its forward, and runs it again in its backward
// (Chen et al., "Training Deep Nets with Sublinear Memory Cost", 2016).
//
// The second forward draws the same random numbers as the first, and its own backward runs within
// the outer one: it computes the parameters' gradients. Running statistics are updated twice.
#pragma once

#include <functional>
#include <vector>

#include <ATen/core/Tensor.h>

#include "lockstep/block_call.h"

namespace lockstep::train {

struct Recomputation {
  BlockForward forward;
  std::function<void()> begin;  // before the second forward
  // After its backward, or (ran: false) when the graph is dropped without one.
  std::function<void(bool ran)> end;
};

// The result of forward for these inputs, without a graph of its own. trainable: true if the block
// has parameters of its own that need gradients. device: the block's, for its random numbers. The
// second forward repeats the random numbers of the first, and its autocast mode.
at::Tensor run_recomputed(const std::vector<at::Tensor>& inputs, bool trainable, at::Device device,
                          Recomputation again);

}  // namespace lockstep::train
