// The contents of a checkpoint of a training run: this rank's part.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <c10/core/ScalarType.h>

#include "base/result.h"
#include "train/checkpoint/format/tensor_file/data_type_names.h"
#include "train/data/sampler.h"
#include "train/engine/owned_tensor.h"
#include "train/engine/snapshot_copies.h"
#include "train/optimizer/optimizer.h"
#include "train/shard.h"

namespace lockstep::train {

struct TrainingState {
  std::int64_t step = 0;
  std::string optimizer;
  std::int64_t optimizer_steps = 0;
  Sampler::State sampler;
  std::map<std::string, std::string> notes;  // the program's own, such as the model's sizes
  std::vector<OwnedTensor> tensors;          // views: writing to them sets the run's state
  // For the stable tensors; a writer waits for it. Null: they may change at any time.
  std::shared_ptr<SnapshotCopies> snapshot_copies;
};

// A tensor that this rank holds whole. invalid where it is not contiguous.
Result<OwnedTensor> whole(std::string name, const at::Tensor& tensor);

// Names: "parameter/head.weight" (frozen ones too), "buffer/norm.mean", "exp_avg/head.weight".
TrainingState state_of(std::int64_t step, const ShardedModel& model, const Optimizer& optimizer,
                       const Sampler& sampler);

// Nothing for types that checkpoints do not support.
std::optional<DataType> data_type_of(at::ScalarType type);

}  // namespace lockstep::train
