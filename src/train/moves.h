// Moves of gradients, each in one pass over memory, since that is what they cost: on a CPU, large
// ones past the cache, where nobody looks for them before other ranks do. Sparse ones, those of
// other types than where they go, and those on a GPU go torch's own way; the bits are the same.
#pragma once

#include <ATen/core/Tensor.h>

namespace lockstep {

// Of tensors of one shape; `to` is dense, contiguous, and may be `from`. An undefined `from` is
// zeros.

// to = from
void move_gradient(const at::Tensor& to, const at::Tensor& from);
// to = from + more; `more` is like `to`.
void move_sum(const at::Tensor& to, const at::Tensor& from, const at::Tensor& more);
// to = from / divisor, on a CPU. Returns a sum that is finite only if all elements are (or so large
// that their sum overflows).
double move_share(const at::Tensor& to, const at::Tensor& from, int divisor);

// A sparse one's; any other as it is.
at::Tensor dense_form(const at::Tensor& tensor);

}  // namespace lockstep
