// Recovery: when a rank is lost, the others continue from their state in memory. When connections
// are lost and all ranks live, they connect again and continue. docs/design/recovery.md explains
// why that is enough.
//
//   auto recovery = TRY(Recovery::start(TRY(recovery_options_from_environment())));
//   auto mesh = TRY(recovery->mesh());
//   auto model = TRY(shard(module, mesh, policy, blocks, recovery->initial_values()));
//   RecoverableTraining training{*model, optimizer, sampler, [&] { return open_checkpoints(); }};
//   std::int64_t step = recovery->is_replacement() ? TRY(recovery->complete(training)).step : ...;
//   while (step < steps) {
//     recovery->begin_step(step, training);
//     const auto done = train_step(...);
//     if (!done) {
//       const auto recovered = TRY(recovery->recover(done.error(), training));
//       if (recovered.leaves) break;
//       step = recovered.step;
//       continue;
//     }
//     ++step;
//   }
//
// Without on_failure, or without a rendezvous that reports lost ranks, recover() returns the error.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "base/units.h"
#include "lockstep/train_types.h"
#include "train/data/sampler.h"
#include "train/group/mesh.h"
#include "train/optimizer/resumable_optimizer.h"
#include "train/recovery/recovery_plan.h"
#include "train/shard.h"

namespace lockstep::train {

enum class RecoveryMode {
  restart,  // the error ends the rank, and the run begins a new attempt
  shrink,   // the remaining replicas continue
  wait,     // all wait for a replacement of the lost rank
};

struct RecoveryOptions {
  RecoveryMode on_failure = RecoveryMode::restart;
  bool is_replacement = false;                       // this process replaces a rank that was lost
  Duration peer_timeout = std::chrono::minutes(10);  // for ranks that are alive
  Duration replacement_timeout = std::chrono::minutes(2);  // until a replacement has joined
  // until the surviving ranks are connected again
  Duration rendezvous_timeout = std::chrono::seconds(20);
  std::filesystem::path checkpoint_folder = {};  // for shards that no surviving rank holds
  BatchScaling batch_scaling = BatchScaling::fixed;
};

// LOCKSTEP_ON_FAILURE and LOCKSTEP_REPLACES, as the agent sets them.
Result<RecoveryOptions> recovery_options_from_environment();

// The objects that a rank failure affects. Borrowed.
struct RecoverableTraining {
  ShardedModel& model;
  ResumableOptimizer& optimizer;
  Sampler& sampler;
  // Recreates what the program has made of new_group(), its checkpoints for example, after each
  // rendezvous. A rank failure in it is recovered from like any other.
  std::function<Result<void>()> reopen = [] { return Result<void>(); };
};

struct RecoveryOutcome {
  bool leaves = false;              // no replica needs this rank: it ends successfully
  std::int64_t step = 0;            // last complete step, after which the sampler is positioned
  std::int64_t repeated_steps = 0;  // complete steps after it that are repeated
  std::string description = {};     // for users: the lost ranks, the remaining ranks, the time
  std::vector<int> lost = {};       // members: the ranks' numbers at the start
  bool reports = false;             // only this rank reports the description to the run
  Duration rendezvous_time{0};      // until all had sent their state
  Duration connect_time{0};         // until the new groups were connected
};

// Used by the training's thread.
class Recovery {
 public:
  static Result<std::unique_ptr<Recovery>> start(const RecoveryOptions& options);
  ~Recovery();

  // The ranks with their current numbers. Collective; called once, at the start.
  Result<Mesh> mesh();
  // Another group of the same ranks, for communication outside of the training. Collective.
  Result<Comm> new_group(Duration bound);

  // True if this process replaces another: then its module is sharded without values, and
  // complete() takes the place of loading a checkpoint.
  bool is_replacement() const;
  InitialValues initial_values() const {
    return is_replacement() ? InitialValues::deferred : InitialValues::broadcast_from_rank_0;
  }
  Result<RecoveryOutcome> complete_replacement(const RecoverableTraining& training);

  // The folder and the batch scaling may be set until the first step begins.
  RecoveryOptions& options();
  // Grows with each rendezvous after a rank failure; 0 at the start.
  int generation() const;

  // Before each step: the state to which recover() goes back. The first call is collective.
  Result<void> begin_step(std::int64_t step, const RecoverableTraining& training);
  // After an error of the step. Returns when this rank can take the next one, with what the others
  // do. Returns the error if no loss caused it or no rank has a copy of the lost state; the agent
  // gets a report of a lost connection or a timeout before.
  Result<RecoveryOutcome> recover(const Error& cause, const RecoverableTraining& training);

 private:
  struct Impl;
  explicit Recovery(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace lockstep::train
