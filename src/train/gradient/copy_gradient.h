// Copies of gradients, each in one pass over memory, because memory bandwidth is their cost. On a
// CPU, large copies bypass the cache: the other ranks read them next. Sparse tensors, tensors of
// another type than their destination, and those on a GPU use torch's own copy; the bits are the
// same.
#pragma once

#include <ATen/core/Tensor.h>

namespace lockstep::train {

// The tensors have one shape; `to` is dense, contiguous, and may be `from`. An undefined `from` is
// zeros.

// to = from
void copy_gradient(const at::Tensor& to, const at::Tensor& from);
// to = from + more; `more` is like `to`.
void copy_sum(const at::Tensor& to, const at::Tensor& from, const at::Tensor& more);
// to = from / divisor, on a CPU. Returns a sum that is finite only if all elements are (or so large
// that their sum overflows).
double copy_divided(const at::Tensor& to, const at::Tensor& from, int divisor);

// A dense copy of a sparse tensor; any other unchanged.
at::Tensor dense_form(const at::Tensor& tensor);

}  // namespace lockstep::train
