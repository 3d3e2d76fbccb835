#include "train/optimizer/gradient_norm.h"

#include <array>
#include <cmath>
#include <cstdint>
#include <limits>

#include <ATen/core/Tensor.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/linalg_vector_norm.h>
#include <ATen/ops/zeros.h>

namespace lockstep::train {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr const char* kLabel = "the gradient norm";

// Each element once: replicas that hold the same slice divide it. It comes after the last transfer,
// where nothing overlaps with it. With parameter servers each worker has a norm of its own.
at::Tensor norm_share(const Unit& unit, const Comm& replicas) {
  if (unit.slice().numel() == 0) return unit.gradient_shard();
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

// torch's own function would copy all of it to 64 bits first.
double sum_of_squares(const at::Tensor& flat) {
  if (flat.scalar_type() == at::kFloat)
    return sum_of_squares(flat.const_data_ptr<float>(), flat.numel());
  if (flat.scalar_type() == at::kDouble)
    return sum_of_squares(flat.const_data_ptr<double>(), flat.numel());
  return std::pow(at::linalg_vector_norm(flat, 2, {}, false, at::kDouble).item<double>(), 2);
}

// Infinity if it is not finite, so that a sum with it is never finite.
Result<double> sum_over_ranks_on_cpu(ShardedModel& model) {
  double squares = 0;
  for (const auto& unit : model.units())
    if (unit.trainable()) squares += sum_of_squares(norm_share(unit, model.mesh().replicate()));
  const double own = std::isfinite(squares) ? squares : kInfinity;
  return model.mesh().world().all_reduce(own, ReduceOp::sum, kLabel);
}

// On a device each read costs the time of all that is queued there, so there is one: of the sum
// over all units and ranks. A GPU widens to 64 bits as it reads.
Result<double> sum_over_ranks_on_device(ShardedModel& model) {
  auto& world = model.mesh().world();
  auto squares = at::zeros({1}, at::TensorOptions(world.device()).dtype(at::kDouble));
  for (const auto& unit : model.units()) {
    if (!unit.trainable()) continue;
    const auto share = norm_share(unit, model.mesh().replicate());
    squares.add_(at::linalg_vector_norm(share, 2, {}, false, at::kDouble).square());
  }
  TRY(world.all_reduce(squares, ReduceOp::sum, kLabel).wait_on_host());
  const double sum = TRY(model.read_at_step_end(squares));
  return std::isfinite(sum) ? sum : kInfinity;
}

}  // namespace

Result<double> global_gradient_norm(ShardedModel& model) {
  const at::NoGradGuard no_grad;
  const bool on_cpu = model.units().front().gradient_slice().is_cpu();
  return std::sqrt(TRY(on_cpu ? sum_over_ranks_on_cpu(model) : sum_over_ranks_on_device(model)));
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
