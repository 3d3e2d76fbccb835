// ParameterGatherer: gathers parameters before they are needed and releases them afterwards.
//
// A divided unit is gathered before its block's forward and released after it. It is gathered again
// before its backward (a hook on the block's output starts that), and released when its last
// gradient has been taken. Blocks are likely to run in the same order as last time. From the second
// pass on, the gathers of the next kPrefetchedBlocks blocks are in flight while a block computes;
// in backward those of the blocks before it. All ranks of a shard group have seen the same order,
// so they prefetch the same.
//
// Slices that other ranks have stepped are gathered after the optimizer's step, unit by unit in the
// order in which forward uses them. They are waited for where a unit is used; a block's when it
// runs. With parameter servers whole units are received from them in the same way.
//
// Memory: at most 1 + kPrefetchedBlocks units (all of them if the policy keeps gathered units).
#pragma once

#include <optional>
#include <vector>

#include "base/result.h"
#include "train/engine/buffer_pool.h"
#include "train/engine/first_error.h"
#include "train/engine/unit.h"
#include "train/group/collective_order_checker.h"
#include "train/group/mesh.h"
#include "train/parameter_server/worker.h"
#include "train/policy.h"

namespace lockstep::train {

class ParameterGatherer {
 public:
  static constexpr int kPrefetchedBlocks = 2;

  // Memory for units while they are gathered: frozen ones may be much larger than the others, or
  // smaller.
  struct Pools {
    BufferPool& trainable;
    BufferPool& frozen;
  };

  // All references must outlive it, and the worker, which is null without servers. blocks: how many
  // the user named.
  ParameterGatherer(std::vector<Unit>& units, const Layout& layout, int blocks,
                    const Policy& policy, Mesh& mesh, Pools pools,
                    CollectiveOrderChecker& roll_call, FirstError& error, ParameterWorker* worker);

  // True if any part of the block is gathered and released.
  bool has_divided_units(int block) const {
    return !divided_units_of_[static_cast<std::size_t>(block)].empty();
  }
  // Around the forward of a block with divided units; backward_follows: autograd records it.
  void pre_forward(int block, bool backward_follows);
  void post_forward(int block, bool backward_follows);
  void pre_backward(int block);
  void release(Unit& unit);
  void release(int block);
  // The end of backward: nothing stays gathered.
  void release_all();

  // After a write to the masters: starts to gather what other ranks have written, in shards and in
  // whole units. Waits for units that are not of blocks that ran since the last time, and which any
  // code may therefore read.
  void begin_parameter_sync();
  // Waits for transfers in flight, of a block that runs now or of all.
  void wait_parameter_sync(int block);
  void wait_parameter_sync();

 private:
  static constexpr int kNone = -1;

  void record_block_order(int block);
  // Starts the gathers of the blocks that come next according to `successors`.
  void prefetch(int block, const std::vector<int>& successors);
  void start_gather(int block);
  void start_parameter_syncs();
  void start_pulls();
  void gather_and_wait(int block, const std::vector<int>& successors);
  bool needs_replica_gather(const Unit& unit) const;
  bool needs_shard_gather(const Unit& unit) const;
  BufferPool& pool_of(const Unit& unit) {
    return unit.trainable() ? pools_.trainable : pools_.frozen;
  }
  void wait_parameter_sync(Unit& unit);
  bool all_blocks_ran(const Unit& unit) const;

  std::vector<Unit>& units_;
  const bool keep_gathered_;
  Mesh& mesh_;
  Pools pools_;
  CollectiveOrderChecker& order_checker_;
  FirstError& error_;
  ParameterWorker* const worker_;
  // by block: those that are gathered and released
  std::vector<std::vector<int>> divided_units_of_;
  std::vector<std::vector<int>> undivided_units_of_;  // by block: others that have a part of it
  std::vector<std::vector<int>> blocks_of_;           // by unit: the blocks whose parameters it has
  std::vector<std::optional<Transfer>> gathers_in_flight_;  // by unit; until it is waited for
  std::vector<std::vector<Transfer>> parameter_syncs_;      // by unit; until they are waited for
  std::vector<bool> ran_since_sync_;                        // by block: since the last sync
  std::vector<int> next_block_, previous_block_;  // by block: its neighbour in the last pass
  int last_ = kNone;                              // block of this pass's forward
};

}  // namespace lockstep::train
