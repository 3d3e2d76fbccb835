// What a checkpoint holds of a training run: what this rank holds of it.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <c10/core/ScalarType.h>

#include "base/result.h"
#include "train/checkpoint/format/type.h"
#include "train/optimizer.h"
#include "train/owned.h"
#include "train/readers.h"
#include "train/sampler.h"
#include "train/shard.h"

namespace lockstep {

struct TrainingState {
  std::int64_t step = 0;
  std::string optimizer;
  std::int64_t optimizer_steps = 0;
  Sampler::State sampler;
  std::map<std::string, std::string> notes;  // the program's own, such as the model's sizes
  std::vector<OwnedTensor> tensors;          // views: writing to them sets the run's state
  // Of the steady ones; who changes those waits there. Null: they may change at any time.
  std::shared_ptr<Readers> readers;
};

// A tensor that this rank holds whole. invalid where it is not contiguous.
Result<OwnedTensor> whole(std::string name, const at::Tensor& tensor);

// Names: "parameter/head.weight" (frozen ones too), "buffer/norm.mean", "exp_avg/head.weight".
TrainingState state_of(std::int64_t step, const ShardedModel& model, const Optimizer& optimizer,
                       const Sampler& sampler);

// Nothing for types that checkpoints do not hold.
std::optional<ElementType> element_type(at::ScalarType type);

}  // namespace lockstep
