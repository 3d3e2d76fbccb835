#include "train/optimizer/gradient_norm.h"

#include <array>
#include <cmath>
#include <cstdint>
#include <limits>

#include <ATen/core/Tensor.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/linalg_vector_norm.h>

namespace lockstep::train {
namespace {

// Each element once: replicas that hold the same slice divide it. It comes after the last transfer,
// where nothing overlaps with it.
at::Tensor norm_share(const Unit& unit, const Comm& replicas) {
  const auto& gradients = unit.gradient_slice();
  if (unit.slice().numel() < unit.shard().numel()) return gradients;
  const auto first = gradients.numel() * replicas.rank() / replicas.size();
  const auto end = gradients.numel() * (replicas.rank() + 1) / replicas.size();
  return gradients.narrow(0, first, end - first);
}

// In 64 bits. Several sums at once: no addition waits for the one before, and they fill a vector.
template <class Number>
double sum_of_squares(const Number* values, std::int64_t count) {
  constexpr std::int64_t kLanes = 8;
  std::array<double, kLanes> sums{};
  const auto whole = count - count % kLanes;
  for (std::int64_t i = 0; i < whole; i += kLanes)
    for (std::int64_t lane = 0; lane < kLanes; ++lane) {
      const auto value = static_cast<double>(values[i + lane]);
      sums[static_cast<std::size_t>(lane)] += value * value;
    }
  double all = 0;
  for (auto i = whole; i < count; ++i)
    all += static_cast<double>(values[i]) * static_cast<double>(values[i]);
  for (const double sum : sums) all += sum;
  return all;
}

// On the CPU torch's own function would copy all of it to 64 bits first; on a GPU it widens as it
// reads.
double sum_of_squares(const at::Tensor& flat) {
  if (flat.is_cpu() && flat.scalar_type() == at::kFloat)
    return sum_of_squares(flat.const_data_ptr<float>(), flat.numel());
  if (flat.is_cpu() && flat.scalar_type() == at::kDouble)
    return sum_of_squares(flat.const_data_ptr<double>(), flat.numel());
  return std::pow(at::linalg_vector_norm(flat, 2, {}, false, at::kDouble).item<double>(), 2);
}

}  // namespace

Result<double> global_gradient_norm(ShardedModel& model) {
  const at::NoGradGuard no_grad;
  double squares = 0;
  for (const auto& unit : model.units())
    if (unit.trainable()) squares += sum_of_squares(norm_share(unit, model.mesh().replicate()));
  // Infinity, so that a sum with it is never finite.
  const double own_squares =
      std::isfinite(squares) ? squares : std::numeric_limits<double>::infinity();
  return std::sqrt(
      TRY(model.mesh().world().all_reduce(own_squares, ReduceOp::sum, "the gradient norm")));
}

void scale_gradients(ShardedModel& model, double factor) {
  const at::NoGradGuard no_grad;
  for (const auto& unit : model.units()) {
    if (!unit.trainable()) continue;
    const auto& gradients = unit.gradient_slice();
    gradients.mul_(factor);
  }
}

}  // namespace lockstep::train
