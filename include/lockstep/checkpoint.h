// Checkpoints of a training, saved while it continues, and resumed with any number of ranks and any
// policy. Link Lockstep::train.
//
//   auto checkpoints = lockstep::Checkpointer::open({.folder = folder}, own_group).value();
//   std::int64_t step = checkpoints.resume(model, optimizer, sampler).value();
//   ...
//   if (save_now) checkpoints.save(step, model, optimizer, sampler).value();
//   ...
//   checkpoints.finish().value();
//
// A save delays the training only for a copy in memory. A background thread writes the copy. When
// all ranks have written, rank 0 makes the checkpoint visible and reports it to the run. One save
// is in flight at a time. All ranks make the same calls.
#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <string>

#include "lockstep/export.h"
#include "lockstep/result.h"
#include "lockstep/train.h"

namespace lockstep {

struct CheckpointOptions {
  std::filesystem::path folder = {};  // the same on all hosts
  int keep = 3;                       // older ones are deleted after a save
  std::int64_t every = 0;             // steps between saves; 0: by time (due())
  int generation = 0;                 // Recovery::generation()
  // The program's own, kept with each checkpoint: the model's sizes for example.
  std::map<std::string, std::string> notes = {};
};

class LOCKSTEP_EXPORT Checkpointer {
 public:
  // Creates the folder, and claims it for this attempt of the run. group: the ranks of the
  // training, in a group that is used for nothing else. denied: a later attempt writes to it.
  // already_exists: another run writes there.
  static Result<Checkpointer> open(const CheckpointOptions& options, const Group& group);
  Checkpointer(Checkpointer&&) noexcept;
  Checkpointer& operator=(Checkpointer&&) noexcept;
  // Waits for the save in flight, for a bounded time.
  ~Checkpointer();

  // Continues from the newest intact checkpoint. Returns the step after which it was taken; 0 if
  // the folder has none. invalid: it is of another model, optimizer or format. corrupt: no
  // checkpoint is intact. After an error the state is undefined.
  Result<std::int64_t> resume(ShardedModel& model, Optimizer& optimizer, Sampler& sampler);

  // True if this rank wants a save after this step. If one rank wants it, all save after the same
  // step. Without options.every, rank 0 wants one each interval().
  bool due(std::int64_t step) const;
  // The interval that loses the least time: sqrt(2 x stall x mean time between failures), after
  // Young, "A first order approximation to the optimum checkpoint interval", CACM 1974. At least
  // 10 s, at most 30 minutes.
  std::chrono::microseconds interval() const;

  // Returns the time that it delayed the training. Waits for the save before; if that failed on any
  // rank, it returns its error on every rank and starts no save: the next call tries again. After
  // denied or already_exists the training must end, because another one writes to the folder.
  Result<std::chrono::microseconds> save(std::int64_t step, const ShardedModel& model,
                                         const Optimizer& optimizer, const Sampler& sampler);
  // Waits for the save in flight and returns its outcome.
  Result<void> finish();

 private:
  friend struct Internals;
  struct Impl;
  explicit Checkpointer(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

// A checkpoint to read without training.
class LOCKSTEP_EXPORT SavedModel {
 public:
  // The newest of the folder that is intact. not_found if there is none.
  static Result<SavedModel> newest(const std::filesystem::path& folder);

  std::int64_t step() const;
  const std::map<std::string, std::string>& notes() const;
  // Fills the module's parameters and buffers. invalid: one is missing in the checkpoint, or has
  // another shape or type. After an error the values are undefined.
  Result<void> load_into(torch::nn::Module& module) const;

 private:
  friend struct Internals;
  struct Impl;
  explicit SavedModel(std::shared_ptr<const Impl> impl) : impl_(std::move(impl)) {}
  std::shared_ptr<const Impl> impl_;
};

}  // namespace lockstep
