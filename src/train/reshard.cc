// ShardedModel::reshard: the same module on another number of ranks.
#include <utility>

#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty.h>

#include "train/shard.h"

namespace lockstep::train {

Result<void> ShardedModel::reshard(Mesh mesh, const Policy& policy) {
  const at::NoGradGuard no_grad;
  TRY(check(policy, mesh.world_size()));
  TRY(mesh.use_device(tensors_.device()));
  auto cut = TRY(mesh.with_consecutive_shard_groups(policy.gradients));
  leave_groups(std::move(cut));
  policy_ = policy;
  // Drops gradients that a failed step left, which have the old layout.
  for (auto& [name, tensor] : tensors_.trainable) tensor.mutable_grad().reset();
  units_.clear();
  // If no block is gathered and released any more, frozen parameters are whole, with their own
  // memory.
  if (policy_.parameters == 1) {
    for (auto& [name, tensor] : tensors_.divided_frozen) {
      tensor.set_data(at::empty(tensor.sizes(), tensor.options()));
      tensors_.frozen.push_back({name, tensor});
    }
    tensors_.divided_frozen.clear();
  }
  TRY(build_layout(InitialValues::deferred));
  start_engine();
  return {};
}

}  // namespace lockstep::train
