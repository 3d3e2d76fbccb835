// Recovery from the loss of a rank, without a new start: the other ranks continue with their state
// in memory, or wait for a replacement of the lost one. Link Lockstep::train.
//
//   auto recovery = lockstep::Recovery::start().value();
//   auto group = recovery.group().value();
//   ...                                          // the model, the optimizer, the sampler
//   lockstep::RecoverableTraining training{model, optimizer, sampler};
//   std::int64_t step = 0;
//   if (recovery.is_replacement()) step = recovery.complete_replacement(training).value().step;
//   while (step < steps) {
//     recovery.begin_step(step, training).value();
//     if (auto done = train_step(); done) {
//       ++step;
//     } else {
//       auto recovered = recovery.recover(done.error(), training).value();
//       if (recovered.leaves) break;
//       step = recovered.step;
//     }
//   }
//
// lockstep run --on-failure shrink or wait turns it on. Without it, recover() returns the error.
#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <string>

#include "lockstep/export.h"
#include "lockstep/result.h"
#include "lockstep/train.h"

namespace lockstep {

struct RecoveryOptions {
  ConnectOptions connect = {};
  // For state that no remaining rank holds. Empty: the run begins a new attempt then.
  std::filesystem::path checkpoint_folder = {};
  BatchScaling batch_scaling = BatchScaling::fixed;
};

// The objects of a training that the loss of a rank changes. Borrowed.
struct RecoverableTraining {
  ShardedModel& model;
  Optimizer& optimizer;
  Sampler& sampler;
  // Recreates the objects that use new_group(), such as a Checkpointer.
  std::function<Result<void>()> reopen = [] { return Result<void>(); };
};

struct RecoveryOutcome {
  bool leaves = false;           // the others continue without this rank: it ends successfully
  std::int64_t step = 0;         // the last complete step, after which the sampler is positioned
  std::string description = {};  // for people: the lost ranks, the remaining ranks, the time
  bool reports = false;          // true on the one rank that reports the description to the run
};

class LOCKSTEP_EXPORT Recovery {
 public:
  static Result<Recovery> start(const RecoveryOptions& options = {});
  Recovery(Recovery&&) noexcept;
  Recovery& operator=(Recovery&&) noexcept;
  ~Recovery();

  // The ranks, for shard(). Collective; called once.
  Result<Group> group();
  // Another group of the ranks that are left, such as for a Checkpointer. Collective.
  Result<Group> new_group(std::chrono::microseconds timeout);

  // This process replaces a lost rank: shard() gives its module no values, and
  // complete_replacement() takes the place of resuming.
  bool is_replacement() const;
  Result<RecoveryOutcome> complete_replacement(const RecoverableTraining& training);
  // The number of recoveries so far, for CheckpointOptions.
  int generation() const;

  // Before each step: the state to which recover() goes back. The first call is collective.
  Result<void> begin_step(std::int64_t step, const RecoverableTraining& training);
  // After an error of the step. Returns when this rank can take the next one, or the error: if no
  // loss of a rank caused it, or if no rank and no checkpoint has the lost state.
  Result<RecoveryOutcome> recover(const Error& cause, const RecoverableTraining& training);

 private:
  friend struct Internals;
  struct Impl;
  explicit Recovery(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace lockstep
