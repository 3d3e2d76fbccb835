// Recovery: when a rank dies, the others go on from where they stand in memory. When connections
// are lost and all ranks live, they connect again and go on. docs/design/
// recovery.md tells why that is enough.
//
//   auto recovery = TRY(Recovery::start(TRY(recovery_options_from_environment())));
//   auto mesh = TRY(recovery->mesh());
//   auto model = TRY(shard(module, mesh, policy, blocks, recovery->values()));  // and an optimizer
//   Training training{*model, optimizer, sampler, [&] { return open_checkpoints(); }};
//   std::int64_t step = recovery->joining() ? TRY(recovery->complete(training)).step : ...;
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
// Without on_failure, or a meeting place that tells deaths, recover() gives back the error.
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
#include "train/mesh.h"
#include "train/recovery/plan.h"
#include "train/sampler.h"
#include "train/shard.h"
#include "train/stepper.h"

namespace lockstep {

enum class OnDeath {
  restart,  // the error ends the rank, and the run begins a new attempt
  shrink,   // the replicas that are left go on
  wait,     // all wait for a rank in place of the dead one
};

// What becomes of the global batch when fewer ranks go on.
enum class BatchOfFewer {
  kept,      // each rank computes more samples
  rescaled,  // each as many as before; the learning rate falls as the batch does (Goyal et al.,
             // "Accurate, Large Minibatch SGD", 2017)
};

struct RecoveryOptions {
  OnDeath on_failure = OnDeath::restart;
  bool replaces = false;                           // this process stands in for a rank that died
  Duration patience = std::chrono::minutes(10);    // for ranks that live
  Duration replacement = std::chrono::minutes(2);  // until somebody comes in place of a dead one
  Duration meeting = std::chrono::seconds(20);     // until the living have connected anew
  std::filesystem::path checkpoints = {};          // for shards that nobody living holds
  BatchOfFewer batch = BatchOfFewer::kept;
};

// LOCKSTEP_ON_FAILURE and LOCKSTEP_REPLACES, as the agent sets them.
Result<RecoveryOptions> recovery_options_from_environment();

// What a death interrupts. Borrowed.
struct Training {
  ShardedModel& model;
  Stepper& optimizer;
  Sampler& sampler;
  // Makes anew what the program has made of apart(), its checkpoints say, whenever the ranks have
  // met anew. A death in it is recovered from like any other.
  std::function<Result<void>()> reopen = [] { return Result<void>(); };
};

struct Recovered {
  bool leaves = false;         // no replica needs this rank: it ends, well
  std::int64_t step = 0;       // that is whole; the sampler stands behind it
  std::int64_t again = 0;      // steps behind it that were whole, and are done again
  std::string story = {};      // for people: who was lost, who goes on, how long it took
  std::vector<int> gone = {};  // members: the numbers with which ranks were started
  bool tells = false;          // this rank, and no other, tells the story to the run
  Duration meeting{0};         // until all had told what they have
  Duration connecting{0};      // until the new groups were there
};

// For the training's thread.
class Recovery {
 public:
  static Result<std::unique_ptr<Recovery>> start(const RecoveryOptions& options);
  ~Recovery();

  // The ranks as they are numbered now. Collective, once at the start and after nothing else.
  Result<Mesh> mesh();
  // Another group of the same ranks, for what is said beside the training. Collective.
  Result<Comm> apart(Duration bound);

  // Whether this process comes in place of another: then its module is sharded without values, and
  // complete() takes the place of loading a checkpoint.
  bool joining() const;
  Values values() const { return joining() ? Values::to_come : Values::of_rank_0; }
  Result<Recovered> complete(const Training& training);

  // The folder and the batch may be set until the first step begins.
  RecoveryOptions& options();
  // Grows whenever the ranks have met again after a death; 0 at the start.
  int generation() const;

  // Before each step: what recover() goes back to. The first is collective.
  Result<void> begin_step(std::int64_t step, const Training& training);
  // After an error of the step. Returns when this rank can take the next one, with what the others
  // do. Returns the error if no loss caused it or no rank has a copy of what was lost; the agent is
  // told before of a lost connection or a time-out.
  Result<Recovered> recover(const Error& cause, const Training& training);

 private:
  struct Impl;
  explicit Recovery(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace lockstep
