// Gathers: parameters are there when they are needed and gone afterwards.
//
// A divided unit is gathered before its block's forward and released after it, gathered again
// before its backward (a hook on the block's output tells), and released when its last gradient has
// been taken. What ran behind a block last time is likely to do so again: from the second pass on
// the next kAhead blocks' gathers are under way while a block computes, in backward those of the
// blocks before it. All ranks of a shard group have seen the same, so they fetch ahead the same.
//
// What other ranks have stepped is gathered behind the optimizer's step, unit by unit in the order
// in which forward will come to them, and waited for where a unit is used: blocks' when they run.
//
// Memory: at most 1 + kAhead units (all of them where the policy keeps what it gathered).
#pragma once

#include <optional>
#include <vector>

#include "base/result.h"
#include "train/buffers.h"
#include "train/first_error.h"
#include "train/mesh.h"
#include "train/policy.h"
#include "train/roll_call.h"
#include "train/unit.h"

namespace lockstep {

class Gathers {
 public:
  static constexpr int kAhead = 2;

  // Memory for units while they are gathered: frozen ones may be much larger than the others, or
  // smaller.
  struct Pools {
    Buffers& trainable;
    Buffers& frozen;
  };

  // All references must outlive it. blocks: how many the user named.
  Gathers(std::vector<Unit>& units, const Layout& layout, int blocks, const Policy& policy,
          Mesh& mesh, Pools pools, RollCall& roll_call, FirstError& error);

  // Whether anything of the block comes and goes.
  bool gathers(int block) const { return !units_of_[static_cast<std::size_t>(block)].empty(); }
  // Around such a block's forward; backward_follows: it is recorded by autograd.
  void enter(int block, bool backward_follows);
  void leave(int block, bool backward_follows);
  void enter_backward(int block);
  void release(Unit& unit);
  void release(int block);
  // The end of backward: nothing stays gathered.
  void end_pass();

  // After somebody has written to the masters: begins to make what other ranks have written ours,
  // in shards and in what is whole all the time. Waits for what is not of blocks that ran since the
  // last time, and so may be read by anybody.
  void begin_spread();
  // Waits for what is still on its way, of a block that runs now or of all.
  void settle(int block);
  void settle();

 private:
  static constexpr int kNone = -1;

  void record(int block);
  // Starts the gathers of the blocks that come next by these successors.
  void fetch_ahead(int block, const std::vector<int>& successors);
  void fetch(int block);
  void need(int block, const std::vector<int>& successors);
  bool from_replicas(const Unit& unit) const;
  bool from_shards(const Unit& unit) const;
  Buffers& pool_of(const Unit& unit) { return unit.trainable() ? pools_.trainable : pools_.frozen; }
  void settle(Unit& unit);
  bool ran(const Unit& unit) const;

  std::vector<Unit>& units_;
  const bool keep_;
  Mesh& mesh_;
  Pools pools_;
  RollCall& roll_call_;
  FirstError& error_;
  std::vector<std::vector<int>> units_of_;          // by block: those that come and go
  std::vector<std::vector<int>> wholes_of_;         // by block: others that have a part of it
  std::vector<std::vector<int>> blocks_of_;         // by unit: whose parameters it has
  std::vector<std::optional<Transfer>> under_way_;  // by unit; until it is waited for
  std::vector<std::optional<Transfer>> spreading_;  // by unit; until it is waited for
  std::vector<bool> ran_;                           // by block: since the last spread
  std::vector<int> after_, before_;                 // by block: which came next to it last time
  int last_ = kNone;                                // block of this pass's forward
};

}  // namespace lockstep
