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
#include "train/checkpoint/checkpoint_interval.h"
#include "train/checkpoint/checkpointer.h"
#include "train/group/comm.h"

namespace lockstep::gpt {

class Checkpoints {
 public:
  // Ranks wait this long for each other's files.
  static constexpr Duration kSaveTimeout = std::chrono::minutes(30);

  // Claims the folder for the run's attempt and its number of recoveries. Without a folder nothing
  // is saved. group: all ranks, with separate connections, for the background thread.
  static Result<Checkpoints> open(const TrainOptions& options, train::Comm group,
                                  std::int64_t recoveries, report::Reporter& reporter);

  // Resumes from the newest intact checkpoint; returns the step after which to continue.
  Result<std::int64_t> resume(train::ShardedModel& model, train::Optimizer& optimizer,
                              train::Sampler& sampler);
  // True if this rank wants a save after this step: every so many steps, or, on rank 0, when the
  // interval is over. If one rank wants it, all must save after the same step.
  bool due(std::int64_t step) const;
  // Begins a save. A failure of the save before is printed and ignored, unless another training
  // writes to the folder: then this one must end.
  Result<void> save(std::int64_t step, const train::ShardedModel& model,
                    const train::Optimizer& optimizer, const train::Sampler& sampler);
  Result<void> finish();

 private:
  void record_stall(Duration stall);

  std::filesystem::path folder_;
  ModelOptions model_;
  std::int64_t every_ = 0;  // steps; 0: by time
  bool prints_ = false;
  std::unique_ptr<train::Checkpointer> writer_;       // null: nothing is saved
  std::optional<train::CheckpointInterval> cadence_;  // on rank 0
};

}  // namespace lockstep::gpt
