#include "train/checkpoint/state.h"

#include <utility>

#include "base/check.h"

namespace lockstep {

namespace {

// Rank 0 writes whole tensors: only policies that divide nothing can be saved.
std::vector<NamedTensor> whole(const std::vector<OwnedTensor>& owned) {
  std::vector<NamedTensor> tensors;
  for (const auto& [name, shape, interval, tensor, copies_equal] : owned) {
    LS_CHECK(tensor.numel() == c10::multiply_integers(shape));
    tensors.push_back({name, tensor.view(shape)});
  }
  return tensors;
}

}  // namespace

std::vector<NamedTensor> model_tensors(const ShardedModel& model) { return whole(model.state()); }

TrainingState state_of(std::int64_t step, const ShardedModel& model, const Optimizer& optimizer,
                       const Sampler& sampler) {
  TrainingState state;
  state.step = step;
  state.optimizer = optimizer.method();
  state.optimizer_steps = optimizer.steps();
  state.sampler = sampler.state();
  state.tensors = model_tensors(model);
  for (auto& tensor : whole(optimizer.state())) state.tensors.push_back(std::move(tensor));
  return state;
}

}  // namespace lockstep
