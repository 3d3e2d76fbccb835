// Recomputation: a block that keeps nothing of its forward but its inputs, and runs it again when
// its backward comes (Chen et al., "Training Deep Nets with Sublinear Memory Cost", 2016).
//
// The second forward draws the same random numbers as the first, and its own backward runs within
// the outer one: there the parameters' gradients arrive. Running statistics are updated twice.
#pragma once

#include <functional>
#include <vector>

#include <ATen/core/Tensor.h>

namespace lockstep {

// A block's forward, of tensors in the place of its tensor inputs.
using BlockForward = std::function<at::Tensor(const std::vector<at::Tensor>& inputs)>;

struct Recomputation {
  BlockForward forward;
  std::function<void()> begin;  // before the second forward
  // After its backward, or (ran: false) when the graph is dropped without one.
  std::function<void(bool ran)> end;
};

// What forward gives of these inputs, now without a graph of its own. trainable: whether the block
// has parameters of its own that need gradients.
at::Tensor recomputed(const std::vector<at::Tensor>& inputs, bool trainable, Recomputation again);

}  // namespace lockstep
