// ShardedModel::reshard: the same module on another number of ranks.
#include <utility>

#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty.h>

#include "train/shard.h"

namespace lockstep {

Result<void> ShardedModel::reshard(Mesh mesh, const Policy& policy) {
  const at::NoGradGuard no_grad;
  TRY(check(policy, mesh.world_size()));
  auto cut = TRY(mesh.cut_by_number(policy.gradients));
  leave_groups(std::move(cut));
  policy_ = policy;
  // What a broken step left there is of the layout before.
  for (auto& [name, tensor] : tensors_.trainable) tensor.mutable_grad().reset();
  units_.clear();
  // Where no block comes and goes any more, what is frozen in them is whole, with its own memory.
  if (policy_.parameters == 1) {
    for (auto& [name, tensor] : tensors_.divided_frozen) {
      tensor.set_data(at::empty(tensor.sizes(), tensor.options()));
      tensors_.frozen.push_back({name, tensor});
    }
    tensors_.divided_frozen.clear();
  }
  TRY(build_layout(Values::to_come));
  start_engine();
  return {};
}

}  // namespace lockstep
