// Resumes from a checkpoint, with any number of ranks and any policy.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "base/result.h"
#include "train/checkpoint/format/manifest.h"
#include "train/data/sampler.h"
#include "train/engine/owned_tensor.h"
#include "train/optimizer/optimizer.h"
#include "train/shard.h"

namespace lockstep::train {

// Called by every rank: rank 0 chooses the newest checkpoint whose manifest is intact, and every
// rank reads its part into the model, the optimizer, the sampler and the random generator. If a
// rank finds a part damaged, all go back to the one before. Returns the step after which it was
// taken; 0 if the folder has none. From a model without an optimizer's state (an imported one) the
// training starts with that model.
//
// invalid: it is of another model, optimizer or format. corrupt: there are checkpoints, but none is
// intact; each is named with the reason. After an error the state is undefined.
Result<std::int64_t> resume(const std::filesystem::path& folder, ShardedModel& model,
                            Optimizer& optimizer, Sampler& sampler);

// The operations of any optimizer that resuming needs.
struct OptimizerCallbacks {
  std::string method;
  // Its state on this rank, to be written to. May be created from the manifest; for a manifest
  // without an optimizer it is fresh.
  std::function<Result<std::vector<OwnedTensor>>(const Manifest&)> state;
  std::function<void(std::int64_t steps)> set_steps;
};

// The same.
Result<std::int64_t> resume(const std::filesystem::path& folder, ShardedModel& model,
                            const OptimizerCallbacks& optimizer, Sampler& sampler);

}  // namespace lockstep::train
