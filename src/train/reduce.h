// Reductions: gradients, from the ranks' own to the pieces of their mean.
//
// Units begin in one fixed order on every rank, whatever order their gradients come in, so that
// ranks whose control flow differs still match each other's transfers. What backward never reached
// counts as a gradient of zero, and its unit begins at the end.
//
//   hop 1  in each micro-step, over the shard group: reduce-scatter, for which this rank adds the
//          sum of the micro-steps before to its own shard. One is under way while backward computes
//          the next unit; the first before a hop 2 is waited for, since the replicas' wire rests.
//   hop 2  in the last micro-step, over the replicas: all-reduce of the shard, or reduce-scatter
//          into the slice where the optimizer's state is divided over them too. Behind the rest of
//          backward.
//
// Memory: two units' whole gradients, one collecting and one in hop 1 (more while a unit waits for
// one before it in the order). Without a shard group there is no hop 1, and whole gradients stay.
#pragma once

#include <optional>
#include <vector>

#include <ATen/core/Tensor.h>

#include "base/result.h"
#include "train/buffers.h"
#include "train/finite_looks.h"
#include "train/first_error.h"
#include "train/mesh.h"
#include "train/roll_call.h"
#include "train/unit.h"

namespace lockstep {

class Reductions {
 public:
  // Units whose whole gradients are there at once.
  static constexpr int kUnderWay = 2;

  // All references must outlive it.
  Reductions(std::vector<Unit>& units, Mesh& mesh, Buffers& wholes, RollCall& roll_call,
             FiniteLooks& looks, FirstError& error);

  // A backward begins, the step's micro_step-th, counted from one. divisor: of the micro-steps'
  // sum.
  void begin(int micro_step, bool last, int divisor);
  // A parameter's gradient is there. Begins what can begin.
  void arrived(Unit& unit, std::size_t member);
  // Backward is over: waits for hop 1.
  void end();
  // Waits for hop 2.
  Result<void> finish();

 private:
  struct Hop1 {
    Unit* unit;
    Transfer transfer;
  };

  void take(Unit& unit, std::size_t member);
  void add_to_sum(const Unit& unit, const at::Tensor& to, const at::Tensor& from);
  void start(Unit& unit);
  void start_hop1(Unit& unit);
  void end_hop1();
  void start_hop2(Unit& unit);

  std::vector<Unit>& units_;
  Mesh& mesh_;
  Buffers& wholes_;
  RollCall& roll_call_;
  FiniteLooks& looks_;
  FirstError& error_;

  int micro_step_ = 0;
  bool last_ = false;
  int divisor_ = 1;
  std::size_t begun_ = 0;  // units of this backward
  std::optional<Hop1> hop1_;
  std::vector<Transfer> hop2_;
};

}  // namespace lockstep
