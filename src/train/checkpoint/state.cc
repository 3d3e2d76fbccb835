#include "train/checkpoint/state.h"

namespace lockstep {

std::vector<NamedTensor> model_tensors(const ShardedModel& model) {
  std::vector<NamedTensor> tensors;
  for (const auto* list : {&model.parameters(), &model.frozen()})
    for (const auto& [name, tensor] : *list)
      tensors.push_back({"parameter/" + name, tensor.detach()});
  for (const auto& [name, tensor] : model.buffers())
    tensors.push_back({"buffer/" + name, tensor.detach()});
  return tensors;
}

TrainingState state_of(std::int64_t step, const ShardedModel& model, const Optimizer& optimizer,
                       const Sampler& sampler) {
  TrainingState state;
  state.step = step;
  state.optimizer = optimizer.method();
  state.optimizer_steps = optimizer.steps();
  state.sampler = sampler.state();
  state.tensors = model_tensors(model);
  for (auto& tensor : optimizer.state()) state.tensors.push_back(std::move(tensor));
  return state;
}

}  // namespace lockstep
