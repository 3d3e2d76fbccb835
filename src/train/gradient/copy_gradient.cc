#include "train/gradient/copy_gradient.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>

#include <ATen/ops/add.h>
#include <ATen/ops/sum.h>

#include "comm/reduction/reduction.h"

namespace lockstep::train {
namespace {

// Smaller ones are still in the cache when they are sent.
constexpr std::size_t kPastCache = 4 << 20;
// Elements summed at a time before they are copied: they fit into the cache of a core.
constexpr std::int64_t kElements = 1 << 15;

std::optional<DataType> type_of(const at::Tensor& tensor) {
  if (tensor.scalar_type() == at::kFloat) return DataType::float32;
  if (tensor.scalar_type() == at::kDouble) return DataType::float64;
  return std::nullopt;
}

// True if our own arithmetic supports the copy.
bool can_copy_directly(const at::Tensor& to, const at::Tensor& from) {
  return to.is_cpu() && from.is_cpu() && type_of(to) && from.layout() == at::kStrided &&
         from.is_contiguous() && from.scalar_type() == to.scalar_type();
}

comm::StoreMode stores_of(const at::Tensor& to, const at::Tensor& from) {
  const bool in_place = to.const_data_ptr() == from.const_data_ptr();
  return !in_place && to.nbytes() >= kPastCache ? comm::StoreMode::non_temporal
                                                : comm::StoreMode::cached;
}

template <std::size_t kSources>
void reduce_into(const at::Tensor& to, const std::array<const void*, kSources>& sources,
                 const comm::ReductionSpec& reduction) {
  const std::array destinations{static_cast<std::byte*>(to.mutable_data_ptr())};
  std::array<const std::byte*, kSources> read{};
  std::transform(sources.begin(), sources.end(), read.begin(),
                 [](const void* source) { return static_cast<const std::byte*>(source); });
  comm::reduce(destinations, read, static_cast<std::size_t>(to.numel()), reduction);
}

}  // namespace

at::Tensor dense_form(const at::Tensor& tensor) {
  return tensor.is_sparse() ? tensor.to_dense() : tensor;
}

void copy_gradient(const at::Tensor& to, const at::Tensor& from) {
  if (!from.defined()) {
    to.zero_();
    return;
  }
  if (!can_copy_directly(to, from)) {
    to.copy_(dense_form(from));
    return;
  }
  if (to.numel() == 0 || to.const_data_ptr() == from.const_data_ptr()) return;
  const std::array destinations{static_cast<std::byte*>(to.mutable_data_ptr())};
  comm::copy_to_all(destinations, static_cast<const std::byte*>(from.const_data_ptr()), to.nbytes(),
                    stores_of(to, from));
}

void copy_sum(const at::Tensor& to, const at::Tensor& from, const at::Tensor& more) {
  if (!from.defined()) return copy_gradient(to, more);
  if (can_copy_directly(to, from) && can_copy_directly(to, more))
    return reduce_into<2>(to, {from.const_data_ptr(), more.const_data_ptr()},
                          {*type_of(to), ReduceOp::sum, 1, stores_of(to, from)});
  to.copy_(dense_form(from));
  to.add_(more);
}

double copy_divided(const at::Tensor& to, const at::Tensor& from, int divisor) {
  if (!from.defined() || !can_copy_directly(to, from)) {
    copy_gradient(to, from);
    to.div_(divisor);
    return at::sum(to).item<double>();
  }
  const comm::ReductionSpec share{*type_of(to), ReduceOp::average, divisor, stores_of(to, from)};
  const auto flat_to = to.view(-1);
  const auto flat_from = from.view(-1);
  double sum = 0;
  for (std::int64_t begin = 0; begin < to.numel(); begin += kElements) {
    const auto count = std::min(kElements, to.numel() - begin);
    const auto piece = flat_from.narrow(0, begin, count);
    sum += at::sum(piece).item<double>();
    reduce_into<1>(flat_to.narrow(0, begin, count), {piece.const_data_ptr()}, share);
  }
  return sum;
}

}  // namespace lockstep::train
