#include "train/agreement.h"

#include <cmath>
#include <cstdint>
#include <limits>

#include <ATen/core/grad_mode.h>
#include <ATen/ops/linalg_vector_norm.h>

namespace lockstep {
namespace {

// Each element once: replicas that hold the same slices leave them to the first.
bool counts_for_the_norm(ShardedModel& model) {
  const auto& slice = model.units().front().slice();
  const auto& shard = model.units().front().shard();
  return slice.numel() < shard.numel() || model.mesh().replicate().rank() == 0;
}

// In 64 bits, for which torch makes a copy: piece by piece, so that it stays small.
double sum_of_squares(const at::Tensor& flat) {
  constexpr std::int64_t kPiece = 1 << 16;
  double squares = 0;
  for (const auto& piece : flat.split(kPiece)) {
    const auto norm = at::linalg_vector_norm(piece, 2, {}, false, at::kDouble);
    squares += std::pow(norm.item<double>(), 2);
  }
  return squares;
}

}  // namespace

Result<double> agree_on_norm(ShardedModel& model) {
  const at::NoGradGuard no_grad;
  double squares = 0;
  for (const auto& unit : model.units())
    if (unit.trainable()) squares += sum_of_squares(unit.gradient_slice());
  const bool finite = std::isfinite(squares);
  // Infinity, so that a sum with it is never taken for a number.
  const double told = !finite                      ? std::numeric_limits<double>::infinity()
                      : counts_for_the_norm(model) ? squares
                                                   : 0;
  return std::sqrt(TRY(model.mesh().world().reduce(told, Reduction::sum, "the gradient norm")));
}

void scale_gradients(ShardedModel& model, double factor) {
  const at::NoGradGuard no_grad;
  for (const auto& unit : model.units()) {
    if (!unit.trainable()) continue;
    auto gradients = unit.gradient_slice();
    gradients.mul_(factor);
  }
}

}  // namespace lockstep
