// The run's checkpoints, which all ranks write and read together, and when to save.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>

#include <lockstep/checkpoint.h>
#include <lockstep/recovery.h>

#include "options.h"

namespace gpt {

using lockstep::Result;

class Checkpoints {
 public:
  // Without a folder nothing is saved. Collective.
  static Result<Checkpoints> open(const TrainOptions& options, lockstep::Recovery& recovery,
                                  int rank);

  // Resumes from the newest intact checkpoint; returns the step after which to continue.
  Result<std::int64_t> resume(lockstep::ShardedModel& model, lockstep::Optimizer& optimizer,
                              lockstep::Sampler& sampler);
  // True if this rank wants a save after this step. If one rank wants it, all must save after the
  // same step.
  bool due(std::int64_t step) const { return checkpointer_ && checkpointer_->due(step); }
  // Begins a save. A failure of the save before is printed and ignored, unless another training
  // writes to the folder: then this one must end.
  Result<void> save(std::int64_t step, const lockstep::ShardedModel& model,
                    const lockstep::Optimizer& optimizer, const lockstep::Sampler& sampler);
  Result<void> finish();

 private:
  void print_interval(std::chrono::microseconds stall);

  bool prints_ = false;
  bool by_time_ = false;
  bool printed_ = false;
  std::optional<lockstep::Checkpointer> checkpointer_;  // none: nothing is saved
};

}  // namespace gpt
