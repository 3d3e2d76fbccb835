// Checkpointer: saves a run's state while it goes on. The training thread only copies the tensors;
// a thread in the background writes them. One save is in flight at a time.
//
//   auto checkpoints = TRY(Checkpointer::open({.folder = folder, .epoch = epoch}));   // rank 0
//   const auto step = TRY(resume(folder, *model, *optimizer, sampler));               // every rank
//   ...
//   TRY(checkpoints->save(state_of(step, *model, *optimizer, sampler)));              // rank 0
//   TRY(checkpoints->finish());
//
// In DDP all replicas hold the same state: rank 0 writes it, every rank reads it.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <future>
#include <memory>
#include <optional>
#include <vector>

#include "base/result.h"
#include "base/units.h"
#include "train/checkpoint/fence.h"
#include "train/checkpoint/state.h"

namespace lockstep {

struct CheckpointOptions {
  std::filesystem::path folder = {};
  std::optional<std::int64_t> epoch =
      std::nullopt;  // the attempt's number; without one, the folder's next
  int keep = 3;      // older ones are deleted after a save
  // Called in the background when a checkpoint is complete.
  std::function<void(std::int64_t step, const std::filesystem::path& path)> saved = nullptr;
};

class Checkpointer {
 public:
  // Makes the folder and claims it. denied: a later attempt has it.
  static Result<std::unique_ptr<Checkpointer>> open(CheckpointOptions options);
  // Waits for the save in flight; of a file system that hangs, not for ever.
  ~Checkpointer();

  // Copies the state and returns; how long the training was held up. Waits for the save before; if
  // that failed, gives its error and begins nothing: the next call tries again.
  Result<Duration> save(const TrainingState& state);
  // Waits for the save in flight and gives its outcome.
  Result<void> finish();

 private:
  // What a save needs. Shared with the thread that saves, which a hanging file system may hold
  // longer than anybody waits for it.
  struct Job {
    const CheckpointOptions options;
    const Fence fence;
    TrainingState snapshot{};  // the thread's while a save is in flight; its memory is used again
  };
  explicit Checkpointer(std::shared_ptr<Job> job) : job_(std::move(job)) {}
  void snapshot(const TrainingState& state);
  static Result<void> persist(const Job& job);

  const std::shared_ptr<Job> job_;
  std::future<Result<void>> in_flight_;
};

// Called by every rank: rank 0 chooses the newest whole checkpoint, all read that one into the
// model, the optimizer and the sampler. The step it was taken after; 0 if there is none. If one
// rank cannot read it, every rank gets an error.
Result<std::int64_t> resume(const std::filesystem::path& folder, ShardedModel& model,
                            Optimizer& optimizer, Sampler& sampler);

}  // namespace lockstep
