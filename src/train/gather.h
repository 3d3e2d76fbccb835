// Gathers: parameters are there when they are needed and gone afterwards.
//
// A divided unit is gathered before its block's forward and released after it, gathered again
// before its backward (a hook on the block's output tells), and released when its last gradient has
// been taken. What ran behind a block last time is likely to do so again: from the second pass on
// the next kAhead blocks' gathers are under way while a block computes, in backward those of the
// blocks before it. All ranks of a shard group have seen the same, so they fetch ahead the same.
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

  // All references must outlive it. blocks: how many the user named.
  Gathers(std::vector<Unit>& units, int blocks, const Policy& policy, Mesh& mesh, Buffers& buffers,
          RollCall& roll_call, FirstError& error);

  // Whether anything of the block comes and goes.
  bool gathers(int block) const { return !units_of_[static_cast<std::size_t>(block)].empty(); }
  // Around such a block's forward; backward_follows: it is recorded by autograd.
  void enter(int block, bool backward_follows);
  void leave(int block, bool backward_follows);
  void enter_backward(int block);
  void release(Unit& unit);
  // The end of backward: nothing stays gathered.
  void end_pass();

  // After the optimizer's step, or after somebody has written to the masters: what other ranks
  // stepped becomes ours, in shards and in what is whole all the time.
  Result<void> spread();

 private:
  static constexpr int kNone = -1;

  void record(int block);
  // Starts the gathers of the blocks that come next by these successors.
  void fetch_ahead(int block, const std::vector<int>& successors);
  void fetch(int block);
  void need(int block, const std::vector<int>& successors);
  Result<void> spread_over_replicas();
  Result<void> spread_over_shards();

  std::vector<Unit>& units_;
  const bool keep_;
  Mesh& mesh_;
  Buffers& buffers_;
  RollCall& roll_call_;
  FirstError& error_;
  std::vector<std::vector<int>> units_of_;          // by block
  std::vector<std::optional<Transfer>> under_way_;  // by unit; until it is waited for
  std::vector<int> after_, before_;                 // by block: which came next to it last time
  int last_ = kNone;                                // block of this pass's forward
};

}  // namespace lockstep
