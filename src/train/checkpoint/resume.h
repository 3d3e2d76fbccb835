// Going on from a checkpoint, with any number of ranks and any policy.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "base/result.h"
#include "train/checkpoint/format/manifest.h"
#include "train/optimizer.h"
#include "train/owned.h"
#include "train/sampler.h"
#include "train/shard.h"

namespace lockstep {

// Called by every rank: rank 0 chooses the newest checkpoint whose manifest is whole, and every
// rank reads what it owns of it into the model, the optimizer, the sampler and the random
// generator. If a rank finds a part damaged, all go back to the one before. The step it was taken
// after; 0 if the folder has none. From a model without an optimizer's state (an imported one) the
// training begins with that model.
//
// invalid: it is of another model, optimizer or format. corrupt: there are checkpoints, but none is
// whole; each is named with the reason. After an error the state is undefined.
Result<std::int64_t> resume(const std::filesystem::path& folder, ShardedModel& model,
                            Optimizer& optimizer, Sampler& sampler);

// An optimizer of any make, as far as going on needs it.
struct ResumedOptimizer {
  std::string method;
  // Its state on this rank, to be written to. May be made of what the manifest has; for a manifest
  // without an optimizer it begins anew.
  std::function<Result<std::vector<OwnedTensor>>(const Manifest&)> state;
  std::function<void(std::int64_t steps)> set_steps;
};

// The same.
Result<std::int64_t> resume(const std::filesystem::path& folder, ShardedModel& model,
                            const ResumedOptimizer& optimizer, Sampler& sampler);

}  // namespace lockstep
