#include "train/gradient/non_finite_detector.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include <ATen/core/grad_mode.h>
#include <ATen/ops/sum.h>

#include "base/format.h"
#include "train/gradient/copy_gradient.h"

namespace lockstep::train {
namespace {

// Encoded as one number, of which the least is the first: its position in the program, then its
// kind.
constexpr int kIndexBits = 20;
constexpr int kMicroStepBits = 10;
constexpr int kKindBits = 2;
constexpr std::int64_t kNone = std::numeric_limits<std::int64_t>::max();

std::int64_t masked(std::int64_t value, int bits) {
  return value & ((std::int64_t{1} << bits) - 1);
}

std::int64_t encode_value(std::size_t position, const NonFiniteDetector::CheckedValue& value) {
  auto code = static_cast<std::int64_t>(position);
  code = code << kKindBits | static_cast<std::int64_t>(value.kind);
  code = code << kMicroStepBits | masked(value.micro_step, kMicroStepBits);
  return code << kIndexBits | masked(value.index, kIndexBits);
}

NonFiniteDetector::CheckedValue decode_value(std::int64_t code) {
  NonFiniteDetector::CheckedValue value;
  value.index = static_cast<int>(masked(code, kIndexBits));
  code >>= kIndexBits;
  value.micro_step = static_cast<int>(masked(code, kMicroStepBits));
  code >>= kMicroStepBits;
  value.kind = static_cast<NonFiniteDetector::Kind>(masked(code, kKindBits));
  return value;
}

// A 16-bit type with few exponent bits would soon overflow in a sum.
at::Tensor sum_of(const at::Tensor& tensor) {
  return tensor.scalar_type() == at::kHalf ? at::sum(tensor, at::kFloat) : at::sum(tensor);
}

}  // namespace

std::string NonFiniteValue::describe() const {
  if (rank == kNoRank)
    return format("each rank's values are finite, but not their sum, in {}", what);
  return format("{}rank {} has the first value that is not finite, in {}",
                in_replica_sum ? "the replica of " : "", rank, what);
}

void NonFiniteDetector::check(CheckedValue value, const at::Tensor& tensor) {
  if (sums_.size() >= kMost || !tensor.defined() || !tensor.is_floating_point()) return;
  const at::NoGradGuard no_grad;
  auto sum = sum_of(tensor.detach());
  if (tensor.is_cpu())
    sums_.push_back({value, sum.item<double>(), {}});
  else
    sums_.push_back({value, 0, std::move(sum)});
}

void NonFiniteDetector::divide_and_check(CheckedValue value, const at::Tensor& to,
                                         const at::Tensor& from, int divisor) {
  if (to.is_cpu()) {
    const double sum = copy_divided(to, from, divisor);
    if (sums_.size() < kMost) sums_.push_back({value, sum, {}});
    return;
  }
  copy_gradient(to, from);
  to.div_(divisor);
  check(value, to);
}

std::int64_t NonFiniteDetector::first_on_this_rank() const {
  for (std::size_t i = 0; i < sums_.size(); ++i) {
    const auto& look = sums_[i];
    const double sum = look.device_sum.defined() ? look.device_sum.item<double>() : look.sum;
    if (!std::isfinite(sum)) return encode_value(i, look.value);
  }
  return kNone;
}

Result<std::optional<NonFiniteDetector::FirstNonFinite>> NonFiniteDetector::find_first(
    Comm& world) const {
  const auto all = TRY(
      world.all_gather(first_on_this_rank(), "which rank had the first value that is not finite"));
  const auto least = std::ranges::min_element(all);
  if (*least == kNone) return std::optional<FirstNonFinite>();
  return std::optional(FirstNonFinite{static_cast<int>(least - all.begin()), decode_value(*least)});
}

}  // namespace lockstep::train
