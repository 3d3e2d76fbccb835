#include "train/recovery/refill.h"

#include <utility>
#include <vector>

#include <ATen/core/grad_mode.h>

#include "base/format.h"

namespace lockstep {
namespace {

// What a rank's state consists of, in as few tensors as there are units.
std::vector<NamedTensor> flat_state(const Training& training) {
  std::vector<NamedTensor> tensors;
  for (const auto& unit : training.model.units())
    tensors.push_back({format("unit {}", unit.index()), unit.master()});
  for (auto& tensor : training.optimizer.flat_state()) tensors.push_back(std::move(tensor));
  for (const auto* list : {&training.model.frozen(), &training.model.buffers()})
    for (const auto& [name, tensor] : *list) tensors.push_back({name, tensor.detach()});
  return tensors;
}

}  // namespace

Result<void> refill(const RecoveryPlan& plan, const Training& training) {
  if (plan.newcomers.empty()) return {};
  const at::NoGradGuard no_grad;
  auto& mesh = training.model.mesh();
  const int source = plan.source_of(mesh.shard().rank());
  std::vector<Transfer> transfers;
  for (const auto& [name, tensor] : flat_state(training))
    transfers.push_back(mesh.replicate().broadcast(tensor, source, name));
  // All are waited for, so that none still writes when the first error is told.
  Result<void> outcome;
  for (auto& transfer : transfers)
    if (auto done = transfer.wait(); outcome && !done) outcome = std::move(done);
  return outcome;
}

}  // namespace lockstep
