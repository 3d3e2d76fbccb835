// The run's checkpoints, which all ranks write and read together, and when to save.
#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>

#include "base/result.h"
#include "options.h"
#include "report/reporter.h"
#include "train/checkpoint/cadence.h"
#include "train/checkpoint/checkpointer.h"
#include "train/comm.h"

namespace lockstep::gpt {

class Checkpoints {
 public:
  // So long ranks wait for each other's files.
  static constexpr Duration kSavingBound = std::chrono::minutes(30);

  // Claims the folder for the run's attempt, which has recovered so often. Without a folder nothing
  // is saved. group: all ranks, with connections of its own, for the thread in the background.
  static Result<Checkpoints> open(const TrainOptions& options, Comm group, std::int64_t recoveries,
                                  Reporter& reporter);

  // From the newest whole checkpoint; the step to go on after.
  Result<std::int64_t> resume(ShardedModel& model, Optimizer& optimizer, Sampler& sampler);
  // Whether this rank wants a save after this step: every so many steps, or, on rank 0, when it is
  // time. If one wants it, all must save after the same step.
  bool due(std::int64_t step) const;
  // Begins a save. That the one before failed is said and survived, unless another training writes
  // to the folder: then this one must end.
  Result<void> save(std::int64_t step, const ShardedModel& model, const Optimizer& optimizer,
                    const Sampler& sampler);
  Result<void> finish();

 private:
  void count(Duration stall);

  std::filesystem::path folder_;
  ModelOptions model_;
  std::int64_t every_ = 0;  // steps; 0: by time
  bool speaks_ = false;
  std::unique_ptr<Checkpointer> writer_;  // null: nothing is saved
  std::optional<Cadence> cadence_;        // rank 0's
};

}  // namespace lockstep::gpt
