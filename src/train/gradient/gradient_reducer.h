// GradientReducer: reduces the ranks' gradients to the slices of their mean.
//
// Units start in one fixed order on every rank, whatever order their gradients come in, so that
// ranks whose control flow differs still match each other's transfers. A parameter that backward
// did not reach counts as a gradient of zero, and its unit starts at the end.
//
// hop 1: in each micro-step, over the shard group: reduce-scatter, for which this rank adds the sum
// of the micro-steps before to its own shard. One is in flight while backward computes the next
// unit. The first one before a hop 2 is waited for, because the links to the replicas are idle.
// hop 2: in the last micro-step, over the replicas: all-reduce of the shard, or reduce-scatter into
// the slice if the optimizer's state is divided over them too. It overlaps with the rest of
// backward.
//
// Memory: two units' whole gradients, one that collects and one in hop 1 (more while a unit waits
// for one before it in the order). Without a shard group there is no hop 1, and whole gradients are
// kept.
//
// With parameter servers whole gradients are sent to them in place of hop 2.
#pragma once

#include <optional>
#include <vector>

#include <ATen/core/Tensor.h>

#include "base/result.h"
#include "train/engine/buffer_pool.h"
#include "train/engine/first_error.h"
#include "train/engine/stream_order.h"
#include "train/engine/unit.h"
#include "train/gradient/non_finite_detector.h"
#include "train/group/collective_order_checker.h"
#include "train/group/mesh.h"
#include "train/parameter_server/worker.h"

namespace lockstep::train {

class GradientReducer {
 public:
  // Units whose whole gradients are in memory at the same time.
  static constexpr int kUnreducedUnitsMax = 2;

  // All references must outlive it, and the worker, which is null without servers.
  GradientReducer(std::vector<Unit>& units, Mesh& mesh, BufferPool& wholes,
                  CollectiveOrderChecker& roll_call, NonFiniteDetector& looks, FirstError& error,
                  ParameterWorker* worker);

  // A backward begins, the step's micro_step-th, counted from one. divisor: of the micro-steps'
  // sum.
  void begin(int micro_step, bool last, int divisor);
  // A parameter's gradient is complete. Starts every transfer that can start.
  void on_gradient(Unit& unit, std::size_t member);
  // Backward is over: waits for hop 1.
  void end();
  // Waits for hop 2.
  Result<void> finish();

 private:
  struct Hop1 {
    Unit* unit;
    Transfer transfer;
  };

  void store_gradient(Unit& unit, std::size_t member);
  void add_to_sum(const Unit& unit, const at::Tensor& to, const at::Tensor& from);
  void start(Unit& unit);
  void start_hop1(Unit& unit);
  void end_hop1();
  void start_hop2(Unit& unit);

  std::vector<Unit>& units_;
  Mesh& mesh_;
  BufferPool& unsharded_pool_;
  CollectiveOrderChecker& order_checker_;
  NonFiniteDetector& non_finite_detector_;
  FirstError& error_;
  ParameterWorker* const worker_;
  StreamOrder streams_;  // of the kernels that collect and divide gradients

  int micro_step_ = 0;
  bool last_ = false;
  int divisor_ = 1;
  std::size_t begun_ = 0;  // units of this backward
  std::optional<Hop1> hop1_;
  std::vector<Transfer> hop2_;
};

}  // namespace lockstep::train
