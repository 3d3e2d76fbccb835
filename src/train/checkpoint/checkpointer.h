// Checkpointer: saves a run's state while it goes on. Every rank has one, and all call it alike.
// Of what this rank is to write the training thread copies only what may change at any time. A
// thread in the background copies the rest, for which the optimizer's next step waits, while
// forward and backward go on (Mohan et al., "CheckFreq", FAST 2021); and it writes the copy. When
// all ranks have, rank 0 makes the checkpoint visible. One save is in flight at a time.
//
//   const auto writer = writer_from_environment(own_environment());
//   auto checkpoints = TRY(Checkpointer::open(
//       {.folder = folder, .writer = writer, .claiming = Claiming::at_opening}, group));
//   const auto step = TRY(resume(folder, *model, *optimizer, sampler));
//   ...
//   TRY(checkpoints->save(state_of(step, *model, *optimizer, sampler)));
//   TRY(checkpoints->finish());
//
// `group` has the ranks of the training in the same order and is used for nothing else: what is
// said over it comes at moments of its own, while the training's transfers go on.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <future>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "base/units.h"
#include "train/checkpoint/format/fence.h"
#include "train/checkpoint/plan.h"
#include "train/checkpoint/snapshot.h"
#include "train/checkpoint/state.h"
#include "train/comm.h"

namespace lockstep {

// When the folder becomes this training's to write (format/fence.h).
enum class Claiming {
  at_save,     // the first one: until then only a warning says that another writes there
  at_opening,  // a training: it ends at once where another run writes
  never,       // save() is refused
};

struct CheckpointOptions {
  std::filesystem::path folder = {};  // the same on all hosts
  Writer writer = {};                 // by default this process, outside of `lockstep run`
  Claiming claiming = Claiming::at_save;
  int keep = 3;  // older ones are deleted after a save
  // Called on rank 0, in the background, when a checkpoint is complete.
  std::function<void(std::int64_t step, const std::filesystem::path& path)> saved = nullptr;
  KeptOut kept_out = nullptr;  // called on rank 0
};

class Checkpointer {
 public:
  // By `claiming` makes the folder and claims it. denied: a later attempt has it. already_exists:
  // another run writes there; the message names it.
  static Result<std::unique_ptr<Checkpointer>> open(CheckpointOptions options, Comm group = Comm());
  // Waits for the save in flight; of a file system that hangs, not for ever.
  ~Checkpointer();

  // How long it held the training up, with what the optimizer's step has waited for the copy of
  // the save before. Waits for that save; if it failed on any rank, gives every rank its error and
  // begins nothing: the next call tries again. The first claims the folder where open() has not,
  // with the same errors. The state has the same tensors on each call. What is steady of it must
  // not be changed but by the optimizer's step: the save fails, and names it.
  Result<Duration> save(const TrainingState& state);
  // Waits for the save in flight and gives its outcome.
  Result<void> finish();

 private:
  // What a save needs. Shared with the thread that saves, which a hanging file system may hold
  // longer than anybody waits for it.
  struct Job {
    const CheckpointOptions options;
    // The thread's while a save is in flight, the caller's otherwise.
    Comm group;
    std::string opening{};         // the claim's; empty: the folder is not claimed
    std::optional<Fence> fence{};  // rank 0's
    std::optional<SavePlan> plan{};
    std::vector<OwnedTensor> tensors{};
    std::vector<std::int64_t> versions{};  // of the tensors when the save began
    Snapshot snapshot{};
    std::future<Result<void>> copied{};
    Manifest manifest{};
  };
  explicit Checkpointer(std::shared_ptr<Job> job) : job_(std::move(job)) {}
  static Result<void> claim(Job& job);
  static Result<void> begin(Job& job, const TrainingState& state);
  using Work = std::function<Result<void>(Job&)>;
  static std::future<Result<void>> in_background(std::shared_ptr<Job> job, Work work);
  void copy_behind(Readers* readers);
  static Result<void> copy_steady(Job& job);
  static Result<void> persist(Job& job, const Result<void>& begun);

  const std::shared_ptr<Job> job_;
  std::future<Result<void>> in_flight_;
};

}  // namespace lockstep
