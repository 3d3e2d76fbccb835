// Tensors as the communicator sees them: dense bytes of a type that it can reduce.
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

namespace lockstep {

// How a reduction of tensors of one type is carried out.
struct ReductionPlan {
  at::ScalarType carried;  // what travels: the tensor's type, or a wider one that it is cast to
  DataType type;
  ReduceOp op;
  std::optional<at::Scalar> factor{};  // by which each rank's tensor is multiplied before
};

// Raises TypeError, naming what to do, for types and operations that cannot be reduced: complex
// numbers, bitwise operations on floats, averages of integers. To logical types minimum and product
// are and, maximum and sum are or. Integers that the communicator does not know travel as wider
// ones, and wrap around as theirs do.
ReductionPlan reduction_of(std::string_view what, const at::Tensor& tensor,
                           const c10d::ReduceOp& op);

// Raises TypeError unless the tensor is dense and on the CPU.
void check_dense(std::string_view what, const at::Tensor& tensor);
// Raises ValueError unless the tensor has that type and number of elements.
void check_like(std::string_view what, const at::Tensor& tensor, at::ScalarType type,
                std::int64_t elements);

// Raises ValueError unless there is one: other backends take one for each device.
at::Tensor& the_only(std::string_view what, std::vector<at::Tensor>& tensors);

// What this rank puts into the reduction, contiguous: the tensor itself if it can travel as it is.
at::Tensor operand_of(const at::Tensor& tensor, const ReductionPlan& reduction);
// The tensor itself if it is contiguous, else new memory of its shape.
at::Tensor dense_memory_for(const at::Tensor& tensor);

// The tensor's contents, contiguous, in memory that shares nothing with `other`.
at::Tensor dense_apart_from(const at::Tensor& other, const at::Tensor& tensor);

// Tensors of one type and size as the rows of one tensor: if each lies right behind the one before.
std::optional<at::Tensor> lying_in_order(const std::vector<at::Tensor>& tensors);
// The same of any, copied if they do not lie so.
at::Tensor in_order(const std::vector<at::Tensor>& tensors);

// The memory of a contiguous tensor.
std::span<std::byte> bytes(const at::Tensor& tensor);

}  // namespace lockstep
