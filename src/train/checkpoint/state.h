// What a checkpoint holds of a training run.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "train/optimizer.h"
#include "train/sampler.h"
#include "train/shard.h"

namespace lockstep {

struct TrainingState {
  std::int64_t step = 0;
  std::string optimizer;
  std::int64_t optimizer_steps = 0;
  Sampler::State sampler;
  std::map<std::string, std::string> notes;  // the program's own, such as the model's sizes
  std::vector<NamedTensor> tensors;          // views: writing to them sets the run's state
};

// Names: "parameter/head.weight" (frozen ones too), "buffer/norm.mean", "exp_avg/head.weight".
std::vector<NamedTensor> model_tensors(const ShardedModel& model);
TrainingState state_of(std::int64_t step, const ShardedModel& model, const Optimizer& optimizer,
                       const Sampler& sampler);

}  // namespace lockstep
