// The run's checkpoints: rank 0 writes them, every rank reads them.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>

#include "base/result.h"
#include "options.h"
#include "report/reporter.h"
#include "train/checkpoint/checkpointer.h"

namespace lockstep::gpt {

class Checkpoints {
 public:
  // As the attempt LOCKSTEP_EPOCH, where it is set. Without a folder nothing is saved.
  static Result<Checkpoints> open(const TrainOptions& options, int rank, Reporter& reporter);

  // From the newest whole checkpoint; the step to go on after.
  Result<std::int64_t> resume(ShardedModel& model, Optimizer& optimizer, Sampler& sampler);
  // Begins a save. That the one before failed is said and survived, unless another attempt has
  // taken over: then this one must end.
  Result<void> save(std::int64_t step, const ShardedModel& model, const Optimizer& optimizer,
                    const Sampler& sampler);
  Result<void> finish();

 private:
  std::filesystem::path folder_;
  ModelOptions model_;
  bool speaks_ = false;
  std::unique_ptr<Checkpointer> writer_;  // rank 0's
};

}  // namespace lockstep::gpt
