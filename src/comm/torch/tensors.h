// Tensors for the communicator: dense bytes of a type that it can reduce.
#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include <ATen/core/Tensor.h>
#include <c10/core/Scalar.h>
#include <torch/csrc/distributed/c10d/Types.hpp>

#include "comm/reduction/types.h"

namespace lockstep::comm {

// How a reduction of tensors of one type is executed.
struct TensorReduction {
  // the type in messages: the tensor's type, or a wider one that it is cast to
  at::ScalarType wire_type;
  DataType type;
  ReduceOp op;
  std::optional<at::Scalar> factor{};  // each rank's tensor is multiplied by it before
};

// Raises TypeError with a remedy for types and operations that cannot be reduced: bitwise
// operations on floats, averages of integers, the order and the product of complex numbers. Sums of
// complex numbers are those of their parts (numbers_of()). For logical types minimum and product
// are and, maximum and sum are or. Integers that the communicator does not support are sent as
// wider ones, and wrap around as theirs do.
TensorReduction plan_tensor_reduction(std::string_view what, const at::Tensor& tensor,
                                      const c10d::ReduceOp& op);

// Raises TypeError unless the tensor is dense and on the CPU.
void check_dense(std::string_view what, const at::Tensor& tensor);
// Raises ValueError unless the tensor has that type and number of elements.
void check_type_and_size(std::string_view what, const at::Tensor& tensor, at::ScalarType type,
                         std::int64_t elements);

// Raises ValueError unless there is one: other backends take one for each device.
at::Tensor& single_tensor(std::string_view what, std::vector<at::Tensor>& tensors);

// The first list, empty if there is none: not yet checked arguments, for profilers.
at::TensorList front_of(const std::vector<std::vector<at::Tensor>>& lists);

// A complex tensor as its real and imaginary parts, in the same memory; any other unchanged.
at::Tensor numbers_of(const at::Tensor& tensor);
// This rank's operand of the reduction of numbers_of() a tensor, contiguous: the tensor itself if
// it can be sent unchanged.
at::Tensor operand_of(const at::Tensor& tensor, const TensorReduction& reduction);
// The tensor itself if it is contiguous, else new memory of its shape.
at::Tensor contiguous_output_for(const at::Tensor& tensor);

// The tensor's contents, contiguous, in memory that shares nothing with `other`.
at::Tensor contiguous_without_overlap(const at::Tensor& other, const at::Tensor& tensor);

// Tensors of one type and size as the rows of one tensor, if each directly follows the one before.
std::optional<at::Tensor> as_adjacent_rows(const std::vector<at::Tensor>& tensors);
// The same for any tensors; they are copied if they are not adjacent.
at::Tensor stacked_rows(const std::vector<at::Tensor>& tensors);

// The memory of a contiguous tensor.
std::span<std::byte> bytes(const at::Tensor& tensor);

}  // namespace lockstep::comm
