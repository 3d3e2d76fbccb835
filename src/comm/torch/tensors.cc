#include "comm/torch/tensors.h"

#include <string>
#include <utility>

#include <ATen/MemoryOverlap.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/view_as_real.h>
#include <c10/core/ScalarType.h>
#include <c10/util/Exception.h>

namespace lockstep::comm {
namespace {

using RedOpType = c10d::ReduceOp::RedOpType;

std::string_view name_of(RedOpType op) {
  switch (op) {
    case RedOpType::SUM:
      return "SUM";
    case RedOpType::AVG:
      return "AVG";
    case RedOpType::PRODUCT:
      return "PRODUCT";
    case RedOpType::MIN:
      return "MIN";
    case RedOpType::MAX:
      return "MAX";
    case RedOpType::BAND:
      return "BAND";
    case RedOpType::BOR:
      return "BOR";
    case RedOpType::BXOR:
      return "BXOR";
    case RedOpType::PREMUL_SUM:
      return "PREMUL_SUM";
    default:
      return "this operation";
  }
}

std::optional<ReduceOp> operation_of(RedOpType op, at::ScalarType type) {
  const bool logical = type == at::kBool;
  const auto of_integers = [&](ReduceOp operation) {
    return at::isIntegralType(type, true) ? std::optional(operation) : std::nullopt;
  };
  const auto of_reals = [&](ReduceOp operation) {
    return at::isComplexType(type) ? std::nullopt : std::optional(operation);
  };
  const auto of_fractions = [&](ReduceOp operation) {
    return at::isIntegralType(type, true) ? std::nullopt : std::optional(operation);
  };
  switch (op) {
    case RedOpType::MIN:
      return of_reals(ReduceOp::min);
    case RedOpType::MAX:
      return of_reals(ReduceOp::max);
    case RedOpType::PRODUCT:
      return of_reals(ReduceOp::product);
    case RedOpType::BAND:
      return of_integers(ReduceOp::bit_and);
    case RedOpType::BOR:
      return of_integers(ReduceOp::bit_or);
    case RedOpType::BXOR:
      return of_integers(ReduceOp::bit_xor);
    case RedOpType::SUM:
      return logical ? ReduceOp::max : ReduceOp::sum;
    case RedOpType::AVG:
      return of_fractions(ReduceOp::average);
    case RedOpType::PREMUL_SUM:
      return of_fractions(ReduceOp::sum);
    default:
      return std::nullopt;
  }
}

std::optional<std::pair<at::ScalarType, DataType>> wire_type_of(at::ScalarType type) {
  switch (type) {
    case at::kFloat:
      return {{type, DataType::float32}};
    case at::kDouble:
      return {{type, DataType::float64}};
    case at::kHalf:
      return {{type, DataType::float16}};
    case at::kBFloat16:
      return {{type, DataType::bfloat16}};
    case at::kInt:
      return {{type, DataType::int32}};
    case at::kLong:
      return {{type, DataType::int64}};
    case at::kBool:
    case at::kByte:
      return {{type, DataType::uint8}};
    case at::kChar:
    case at::kShort:
    case at::kUInt16:
      return {{at::kInt, DataType::int32}};
    case at::kUInt32:
      return {{at::kLong, DataType::int64}};
    default:
      return std::nullopt;
  }
}

std::optional<at::Scalar> factor_of(const c10d::ReduceOp& op) {
  if (op.op_ != RedOpType::PREMUL_SUM || !op.supplement_) return std::nullopt;
  // Before torch 2.13 it has no other name than this one, which later ones keep.
  const auto& supplement = static_cast<const c10d::NCCLPreMulSumSupplement&>(*op.supplement_);
  return supplement.tensor_factor.defined() ? supplement.tensor_factor.item()
                                            : at::Scalar(supplement.double_factor);
}

}  // namespace

TensorReduction plan_tensor_reduction(std::string_view what, const at::Tensor& tensor,
                                      const c10d::ReduceOp& op) {
  const auto type = tensor.scalar_type();
  const auto carried = wire_type_of(c10::toRealValueType(type));
  TORCH_CHECK_TYPE(carried, what, " over lockstep does not reduce ", type, ": cast it first");
  const auto operation = operation_of(op.op_, type);
  TORCH_CHECK_TYPE(operation, what, " over lockstep does not reduce ", type, " by ",
                   std::string(name_of(op.op_)),
                   op.op_ == RedOpType::AVG ? ": use SUM and divide" : ": cast it, or gather it");
  return {carried->first, carried->second, *operation, factor_of(op)};
}

void check_dense(std::string_view what, const at::Tensor& tensor) {
  TORCH_CHECK_TYPE(tensor.defined() && tensor.device().is_cpu() && tensor.layout() == at::kStrided,
                   what, " over lockstep takes dense tensors on the CPU, got ",
                   tensor.defined() ? tensor.toString() : "none");
}

void check_type_and_size(std::string_view what, const at::Tensor& tensor, at::ScalarType type,
                         std::int64_t elements) {
  check_dense(what, tensor);
  TORCH_CHECK_VALUE(tensor.scalar_type() == type && tensor.numel() == elements, what, " needs ",
                    elements, " elements of ", type, " here, got ", tensor.numel(), " of ",
                    tensor.scalar_type());
}

at::Tensor& single_tensor(std::string_view what, std::vector<at::Tensor>& tensors) {
  TORCH_CHECK_VALUE(tensors.size() == 1, what, " over lockstep takes one tensor a rank, got ",
                    tensors.size());
  return tensors.front();
}

at::Tensor numbers_of(const at::Tensor& tensor) {
  return tensor.is_complex() ? at::view_as_real(tensor) : tensor;
}

at::TensorList front_of(const std::vector<std::vector<at::Tensor>>& lists) {
  return lists.empty() ? at::TensorList() : at::TensorList(lists.front());
}

at::Tensor operand_of(const at::Tensor& tensor, const TensorReduction& reduction) {
  if (reduction.factor) return tensor.mul(*reduction.factor).contiguous();
  return tensor.to(reduction.wire_type).contiguous();
}

at::Tensor contiguous_output_for(const at::Tensor& tensor) {
  if (tensor.is_contiguous()) return tensor;
  return at::empty_like(tensor, tensor.options(), at::MemoryFormat::Contiguous);
}

at::Tensor contiguous_without_overlap(const at::Tensor& other, const at::Tensor& tensor) {
  const at::Tensor contents = tensor.contiguous();
  return at::get_overlap_status(contents, other) == at::MemOverlapStatus::No ? contents
                                                                             : contents.clone();
}

std::optional<at::Tensor> as_adjacent_rows(const std::vector<at::Tensor>& tensors) {
  const auto& first = tensors.front();
  const auto* next = static_cast<const std::byte*>(first.const_data_ptr());
  for (const auto& tensor : tensors) {
    if (!tensor.is_contiguous() || tensor.const_data_ptr() != next ||
        !tensor.storage().is_alias_of(first.storage()))
      return std::nullopt;
    next += tensor.nbytes();
  }
  return first.as_strided({static_cast<std::int64_t>(tensors.size()), first.numel()},
                          {first.numel(), 1});
}

at::Tensor stacked_rows(const std::vector<at::Tensor>& tensors) {
  if (auto lying = as_adjacent_rows(tensors)) return *std::move(lying);
  std::vector<at::Tensor> rows;
  for (const auto& tensor : tensors) rows.push_back(tensor.reshape({1, -1}));
  return at::cat(rows);
}

std::span<std::byte> bytes(const at::Tensor& tensor) {
  TORCH_INTERNAL_ASSERT(tensor.is_contiguous());
  return {static_cast<std::byte*>(tensor.mutable_data_ptr()), tensor.nbytes()};
}

}  // namespace lockstep::comm
