// Checkpointer: saves a run's state while the run continues. Every rank has one, and all ranks make
// the same calls. The training thread copies only the part of this rank's share that may change at
// any time. A background thread copies the rest, for which the optimizer's next step waits, while
// forward and backward go on (Mohan et al., "CheckFreq", FAST 2021); then it writes the copy. When
// all ranks have written, rank 0 makes the checkpoint visible. One save is in flight at a time.
//
//   const auto writer = writer_from_environment(own_environment());
//   auto checkpoints = TRY(Checkpointer::open(
//       {.folder = folder, .writer = writer, .claim_time = ClaimTime::at_open}, group));
//   const auto step = TRY(resume(folder, *model, *optimizer, sampler));
//   ...
//   TRY(checkpoints->save(state_of(step, *model, *optimizer, sampler)));
//   TRY(checkpoints->finish());
//
// `group` has the ranks of the training in the same order and is used for nothing else: its
// messages come at independent times, while the training's transfers go on.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <future>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/os/environment.h"
#include "base/result.h"
#include "base/units.h"
#include "train/checkpoint/format/writer/fence.h"
#include "train/checkpoint/host_folders.h"
#include "train/checkpoint/save_plan.h"
#include "train/checkpoint/snapshot.h"
#include "train/checkpoint/state.h"
#include "train/group/comm.h"

namespace lockstep::train {

// When this training claims the folder for writing (format/fence.h).
enum class ClaimTime {
  at_save,  // at the first save: before it, only a warning reports another writer
  at_open,  // for a training: it ends at once if another run writes
  never,    // save() is refused
};

struct CheckpointOptions {
  std::filesystem::path folder = {};  // the same on all hosts
  Writer writer = {};                 // by default this process, outside of `lockstep run`
  ClaimTime claim_time = ClaimTime::at_save;
  int keep = 3;  // older ones are deleted after a save
  // Called on rank 0, in the background, when a checkpoint is complete.
  std::function<void(std::int64_t step, const std::filesystem::path& path)> on_saved = nullptr;
  WriterRejected on_rejected = nullptr;  // called on rank 0
  // Set if each host has a folder of its own at this path: the name of this rank's host
  // (docs/design/host-checkpoints.md). Empty on all ranks: they share the folder.
  std::string host = {};
};

// For `host`: that of the environment if the folder is the run's own and another one on each host.
std::string host_of_folder(const std::filesystem::path& folder, const Environment& environment);

class Checkpointer {
 public:
  // Creates the folder, and claims it according to `claim_time`. denied: a later attempt has it.
  // already_exists: another run writes there; the message names it.
  static Result<std::unique_ptr<Checkpointer>> open(CheckpointOptions options, Comm group = Comm());
  // Waits for the save in flight; on a file system that hangs, only for a bounded time.
  ~Checkpointer();

  // Returns the time that it delayed the training, including the wait of the optimizer's step for
  // the copy of the save before. Waits for that save; if it failed on any rank, returns its error
  // on every rank and starts no save: the next call tries again. The first call claims the folder
  // if open() has not, with the same errors. The state has the same tensors on each call. Only the
  // optimizer's step may change its stable tensors: otherwise the save fails, and names the tensor.
  Result<Duration> save(const TrainingState& state);
  // Waits for the save in flight and returns its outcome.
  Result<void> finish();

 private:
  // The data of a save. Shared with the thread that saves, which a hanging file system may hold
  // longer than the caller waits for it.
  struct Job {
    const CheckpointOptions options;
    // Used by the thread while a save is in flight, by the caller otherwise.
    Comm group;
    HostFolders hosts{};
    std::string claim_id{};        // of this host's folder; empty: it is not claimed
    std::optional<Fence> fence{};  // on the keeper of the folder
    std::optional<SavePlan> plan{};
    std::vector<OwnedTensor> tensors{};
    std::vector<std::int64_t> versions{};  // of the tensors when the save began
    Snapshot snapshot{};
    std::future<Result<void>> copy_done{};
    Manifest manifest{};
  };
  explicit Checkpointer(std::shared_ptr<Job> job) : job_(std::move(job)) {}
  using Claiming = Result<std::string> (*)(const CheckpointOptions&, std::optional<Fence>&);
  static Result<void> claim_by(Claiming claiming, Job& job);
  static Result<void> claim(Job& job);
  static Result<void> begin(Job& job, const TrainingState& state, at::Device device);
  using Work = std::function<Result<void>(Job&)>;
  static std::future<Result<void>> in_background(std::shared_ptr<Job> job, Work work);
  void start_background_copy(SnapshotCopies* readers);
  static Result<void> copy_stable(Job& job);
  static Result<void> persist(Job& job, const Result<void>& begun);

  const std::shared_ptr<Job> job_;
  std::future<Result<void>> in_flight_;
};

}  // namespace lockstep::train
