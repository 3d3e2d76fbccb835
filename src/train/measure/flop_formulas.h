// The floating-point operations of an operator of torch, from the shapes of its inputs.
#pragma once

#include <optional>
#include <string_view>

#include <ATen/core/ivalue.h>
#include <c10/util/ArrayRef.h>

namespace lockstep::train {

// name: such as "aten::mm". A multiplication and an addition are two operations. Nothing: the
// operator is none of those that count, which are products of matrices, convolutions and attention,
// or an input is no plain tensor. Then the operators within it count.
//
// The formulas are those of torch.utils.flop_counter, with two differences. A convolution with
// groups has no operations between groups, in backward either. The backward of attention counts as
// twice its forward, also for kernels that compute the scores again: these are the operations of
// the model, as in Chowdhery et al., "PaLM", 2022, appendix B. A causal mask saves nothing.
std::optional<double> flops_of(std::string_view name, c10::ArrayRef<const c10::IValue> inputs);

}  // namespace lockstep::train
