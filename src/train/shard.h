// shard(module, mesh, policy, blocks): a module that many ranks train together.
//
//   auto model = TRY(shard(*module, mesh, TRY(parse_policy("mics:8", mesh.world_size())), blocks));
//   for (...) {
//     TRY(model->backward(loss_of(module, batch), Sync::now));
//     TRY(model->finish_gradients());
//     TRY(optimizer->step());
//   }
//
// If the policy divides parameters, the forward of each block goes through the model, which gathers
// its parameters before and releases them after it:
//
//   for (auto& block : blocks_) x = (*model)(*block, x);     or, of a torch::nn::Sequential,
//   x = model->forward(x);
//
// The gradient is the mean over ranks and micro-steps of each rank's d loss / d parameter. With a
// loss that is a mean over equally many samples everywhere, that is the gradient of the mean over
// the global batch.
//
// Method: units (unit.h), whose parameters are gathered and released (parameter_gatherer.h) and
// whose gradients are reduced (gradient_reducer.h) while autograd computes others. Hooks on blocks'
// outputs and completed gradients (gradient_tracker.h) start the transfers. After Li et al.,
// "PyTorch Distributed", VLDB 2020; Rajbhandari et al., "ZeRO", SC 2020; Zhang et al., "MiCS", VLDB
// 2022.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <ATen/core/Tensor.h>

#include "base/result.h"
#include "lockstep/block_call.h"
#include "lockstep/train_types.h"
#include "train/engine/blocks.h"
#include "train/engine/buffer_pool.h"
#include "train/engine/first_error.h"
#include "train/engine/layout.h"
#include "train/engine/module_tensors.h"
#include "train/engine/owned_tensor.h"
#include "train/engine/parameter_gatherer.h"
#include "train/engine/recompute.h"
#include "train/engine/snapshot_copies.h"
#include "train/engine/unit.h"
#include "train/gradient/gradient_hooks.h"
#include "train/gradient/gradient_reducer.h"
#include "train/gradient/gradient_tracker.h"
#include "train/gradient/non_finite_detector.h"
#include "train/group/collective_order_checker.h"
#include "train/group/mesh.h"
#include "train/parameter_server/server.h"
#include "train/parameter_server/worker.h"
#include "train/policy.h"

namespace lockstep::train {

// How the gradients of a step's micro-steps are combined.
enum class GradientAccumulation {
  mean,
  sum,  // as torch's own backward adds them up
};

// Used by one thread. The module's parameters stay views of the model's buffers, also after the
// model is destroyed; those that the policy divides have no memory then.
class ShardedModel {
 public:
  ~ShardedModel();
  ShardedModel(const ShardedModel&) = delete;
  ShardedModel& operator=(const ShardedModel&) = delete;

  // block.forward(inputs...), with the block's parameters gathered, now and in its backward. The
  // next call that returns a Result returns an error of this one, and the output is undefined. A
  // module that is none of the blocks runs unchanged. Without autograd (NoGradGuard) it is also
  // gathered and released: every rank of a shard group runs it. If the policy recomputes, the block
  // must live until its backward, and the inputs are copied.
  template <class Block, class... Inputs>
  at::Tensor operator()(Block& block, const Inputs&... inputs) {
    return run_block(block, block_call(block, inputs...));
  }
  at::Tensor run_block(const torch::nn::Module& block, const BlockCall& call);
  // All children of a torch::nn::Sequential, one after the other.
  at::Tensor forward(const at::Tensor& input);

  // The first backward of a step starts from zero; no zero_grad is needed. After an error the
  // gradients are undefined and the ranks out of step: resume from a checkpoint.
  Result<void> backward(const at::Tensor& loss, Sync sync);
  // Waits for the reductions that backward(loss, Sync::now) started. On a device, what the caller
  // queues afterwards waits for them.
  Result<void> finish_gradients();

  // The parts of the above, for callers that run modules and autograd themselves
  // (autograd_engine.h). Around a block's forward: its inputs, and its outputs with the result of
  // pre_forward().
  int pre_forward(const torch::nn::Module& module, const std::vector<at::Tensor>& inputs);
  void post_forward(int block, const std::vector<at::Tensor>& outputs);
  // At a block's outputs, after its forward: checks that they are finite.
  void check_finite(const torch::nn::Module& module, const std::vector<at::Tensor>& outputs);
  // Around a backward: before the first gradient is added to a parameter, and after the last.
  Result<void> begin_backward(Sync sync,
                              GradientAccumulation micro_steps = GradientAccumulation::mean);
  Result<void> end_backward();
  bool in_backward() const { return gradient_tracker_->in_backward(); }
  // The next backward starts from zero, even after earlier micro-steps.
  void forget_gradients();
  // Continues in other groups, in which this rank has the same rank in a shard group of the same
  // size: so it keeps its slices, and no data moves. Leaves the groups before, which ends the
  // transfers in flight, with the failed step and its error. Masters, and gradients of a step that
  // finish_gradients() completed, do not change.
  Result<void> regroup(Mesh mesh);
  // Continues in other groups, of another number of ranks, by a policy that fits them: rebuilds the
  // layout in place, under the module's same parameters. Their contents are lost: write all of
  // state() and call sync_parameters() before use; an optimizer's slices change. Collective.
  Result<void> reshard(Mesh mesh, const Policy& policy);
  // After a write to this rank's masters of the units: updates each rank's copies of the other
  // ranks' slices. Collective. begin_parameter_sync() does not wait for the parameters of blocks
  // that ran through the model since the last call: the wait is at their next run.
  Result<void> sync_parameters();
  Result<void> begin_parameter_sync();
  // Waits for all that begin_parameter_sync() left. Call it after an optimizer's step before code
  // other than blocks that run through the model reads parameters.
  Result<void> wait_parameter_sync();
  // Buffers such as running statistics follow the data of each rank. Makes them equal: floats the
  // mean over the ranks, all others rank 0's. Collective.
  Result<void> average_buffers();
  // Before an optimizer steps masters: copies finished gradients to main memory, if masters are
  // there. Waits for the device.
  void fetch_gradients();
  // Reads a 64-bit float of one element from the model's device, in one read with what the ranks
  // compare at the end of a step. An error if they differ. Waits for the device.
  Result<double> read_at_step_end(const at::Tensor& number);
  // For the step whose gradients are finished and whose norm is not finite: the rank that had the
  // first such value, and its location. Collective.
  Result<NonFiniteValue> find_first_non_finite();
  // The ranks have decided on the step.
  void clear_finite_checks() { non_finite_detector_.clear(); }
  // An error where no Result could be returned, such as in a block's forward.
  Result<void> status() const { return error_.outcome(); }

  // Trainable parameters and buffers under the module's names; a shared one once, under its first.
  const std::vector<NamedTensor>& parameters() const { return tensors_.trainable; }
  const std::vector<NamedTensor>& buffers() const { return tensors_.buffers; }
  // The parameters that do not require a gradient and are whole on every rank: all but those of
  // blocks that are gathered and released.
  const std::vector<NamedTensor>& frozen() const { return tensors_.frozen; }
  // This rank's part of all of these: "parameter/head.weight", "buffer/norm.mean"; parameters of
  // 16-bit floats in the 32 bits of their masters. After writing to them call sync_parameters().
  // Waits for snapshot copies.
  std::vector<OwnedTensor> state() const;

  // The copies of the tensors that state() returned as stable. Wait for them before a change.
  const std::shared_ptr<SnapshotCopies>& snapshot_copies() const { return snapshot_copies_; }

  // With parameter servers: the rank's side of them; null on ranks of the other kind.
  ParameterWorker* parameter_worker() const { return parameter_worker_.get(); }
  ParameterServer* parameter_server() const { return parameter_server_.get(); }
  // Null without parameter servers.
  const Meeting* meeting() const { return meeting_.get(); }
  // On a worker: it ends, and its task is given to another one. On a server: the connections to
  // workers end. Does nothing elsewhere.
  void leave_servers();

  // As requested, or as chosen. With parameter servers a worker's groups are of one rank, and a
  // server's mesh has the servers.
  const Policy& policy() const { return policy_; }
  const Layout& layout() const { return layout_; }
  const std::vector<Unit>& units() const { return units_; }
  // The unit of a parameter, by its index in parameters().
  const Unit& unit_of(std::size_t parameter) const {
    return units_[static_cast<std::size_t>(layout_.parameters[parameter].unit)];
  }
  Mesh& mesh() { return mesh_; }
  at::Device device() const { return tensors_.device(); }
  // The greatest number of buffers of the largest unit's size in use at once: by gathered
  // parameters and by unreduced gradients.
  int buffers_in_use_max() const { return unsharded_pool_->in_use_max(); }

 private:
  friend Result<std::unique_ptr<ShardedModel>> shard(torch::nn::Module&, Mesh, const Policy&,
                                                     const std::vector<torch::nn::Module*>&,
                                                     InitialValues);
  ShardedModel(Mesh mesh, Blocks blocks);
  Result<void> resolve_policy(const Policy& asked);
  Result<Policy> choose(const Policy& asked);
  Result<void> take_server_role(const Policy& asked);
  Result<void> connect_servers(InitialValues values);
  std::vector<at::Tensor> frozen_and_buffers() const;
  Result<void> build(InitialValues values);
  void start_engine();
  void leave_groups(Mesh next);
  void wait_for_kernels() const;
  Result<void> build_layout(InitialValues values);
  Result<void> broadcast_frozen_and_buffers();
  bool recomputes(const torch::nn::Module& module) const;
  at::Tensor recompute(const torch::nn::Module& module, const BlockCall& call);
  void hook_block_inputs(int block, const std::vector<at::Tensor>& inputs);
  Result<void> run_backward(const at::Tensor& loss);

  enum class Phase { finished, accumulating, reducing };

  Mesh mesh_;
  Blocks blocks_;
  std::vector<SequentialChild> children_;
  ModuleTensors tensors_;
  Policy policy_;
  Layout layout_;
  std::vector<Unit> units_;
  std::shared_ptr<Meeting> meeting_;  // with parameter servers; shared with them
  std::unique_ptr<ParameterWorker> parameter_worker_;
  std::unique_ptr<ParameterServer> parameter_server_;
  // Shared: a save in flight may hold it last.
  std::shared_ptr<SnapshotCopies> snapshot_copies_ = std::make_shared<SnapshotCopies>();
  FirstError error_;
  NonFiniteDetector non_finite_detector_;
  std::unique_ptr<BufferPool> unsharded_pool_, frozen_unsharded_pool_;
  std::unique_ptr<CollectiveOrderChecker> order_checker_;
  std::shared_ptr<ParameterGatherer>
      gatherer_;  // blocks' outputs point to it weakly: a graph may outlive it
  std::unique_ptr<GradientReducer> reducer_;
  std::shared_ptr<GradientTracker> gradient_tracker_;  // graphs point to it weakly, too
  GradientHooks hooks_;

  Phase phase_ = Phase::finished;
  int micro_steps_ = 0;
};

// Rank 0's values of parameters and buffers are broadcast to all ranks. blocks: the modules that
// are gathered one at a time if the policy divides parameters; for a torch::nn::Sequential its
// children, without being named. The module need not outlive the call; its tensors must, and so
// must a Sequential if forward() is called. Cuts the mesh into shard groups according to the
// policy. Refuses a module that is sharded already, and parameters on several devices.
// InitialValues::deferred: nothing is broadcast and the module's values are not read; write all of
// state() and call sync_parameters() before use.
Result<std::unique_ptr<ShardedModel>> shard(
    torch::nn::Module& module, Mesh mesh, const Policy& policy = {},
    const std::vector<torch::nn::Module*>& blocks = {},
    InitialValues values = InitialValues::broadcast_from_rank_0);

}  // namespace lockstep::train
