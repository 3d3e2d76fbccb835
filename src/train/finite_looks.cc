#include "train/finite_looks.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include <ATen/core/grad_mode.h>
#include <ATen/ops/sum.h>

#include "base/format.h"
#include "train/moves.h"

namespace lockstep {
namespace {

// As one number, of which the least is the first: its place in the program, then what it was.
constexpr int kIndexBits = 20;
constexpr int kMicroStepBits = 10;
constexpr int kKindBits = 2;
constexpr std::int64_t kNone = std::numeric_limits<std::int64_t>::max();

std::int64_t masked(std::int64_t value, int bits) {
  return value & ((std::int64_t{1} << bits) - 1);
}

std::int64_t code_of(std::size_t position, const FiniteLooks::Place& place) {
  auto code = static_cast<std::int64_t>(position);
  code = code << kKindBits | static_cast<std::int64_t>(place.kind);
  code = code << kMicroStepBits | masked(place.micro_step, kMicroStepBits);
  return code << kIndexBits | masked(place.index, kIndexBits);
}

FiniteLooks::Place place_of(std::int64_t code) {
  FiniteLooks::Place place;
  place.index = static_cast<int>(masked(code, kIndexBits));
  code >>= kIndexBits;
  place.micro_step = static_cast<int>(masked(code, kMicroStepBits));
  code >>= kMicroStepBits;
  place.kind = static_cast<FiniteLooks::Kind>(masked(code, kKindBits));
  return place;
}

// Of 16 bits with few of them for the exponent a sum would overflow soon.
at::Tensor sum_of(const at::Tensor& tensor) {
  return tensor.scalar_type() == at::kHalf ? at::sum(tensor, at::kFloat) : at::sum(tensor);
}

}  // namespace

std::string NotFinite::words() const {
  if (rank == kNobody)
    return format("each rank's values are finite, but not their sum, in {}", what);
  return format("{}rank {} has the first value that is not finite, in {}",
                of_replica ? "the replica of " : "", rank, what);
}

void FiniteLooks::look(Place place, const at::Tensor& tensor) {
  if (looks_.size() >= kMost || !tensor.defined() || !tensor.is_floating_point()) return;
  const at::NoGradGuard no_grad;
  auto sum = sum_of(tensor.detach());
  if (tensor.is_cpu())
    looks_.push_back({place, sum.item<double>(), {}});
  else
    looks_.push_back({place, 0, std::move(sum)});
}

void FiniteLooks::divide(Place place, const at::Tensor& to, const at::Tensor& from, int divisor) {
  if (to.is_cpu()) {
    const double sum = move_share(to, from, divisor);
    if (looks_.size() < kMost) looks_.push_back({place, sum, {}});
    return;
  }
  move_gradient(to, from);
  to.div_(divisor);
  look(place, to);
}

std::int64_t FiniteLooks::own_first() const {
  for (std::size_t i = 0; i < looks_.size(); ++i) {
    const auto& look = looks_[i];
    const double sum = look.device_sum.defined() ? look.device_sum.item<double>() : look.sum;
    if (!std::isfinite(sum)) return code_of(i, look.place);
  }
  return kNone;
}

Result<std::optional<FiniteLooks::First>> FiniteLooks::first(Comm& world) const {
  const auto all =
      TRY(world.gather(own_first(), "which rank had the first value that is not finite"));
  const auto least = std::ranges::min_element(all);
  if (*least == kNone) return std::optional<First>();
  return std::optional(First{static_cast<int>(least - all.begin()), place_of(*least)});
}

}  // namespace lockstep
