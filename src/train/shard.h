// shard(module, mesh, policy, blocks): a module that many ranks train as one.
//
//   auto model = TRY(shard(*module, mesh, TRY(parse_policy("mics:8", mesh.world_size())), blocks));
//   for (...) {
//     TRY(model->backward(loss_of(module, batch), Sync::now));
//     TRY(model->finish_gradients());
//     TRY(optimizer->step());
//   }
//
// Where the policy divides parameters, the forward of each block goes through the model, which
// gathers its parameters before and releases them after it:
//
//   for (auto& block : blocks_) x = (*model)(*block, x);     or, of a torch::nn::Sequential,
//   x = model->forward(x);
//
// What the gradient is: the mean over ranks and micro-steps of each rank's d loss / d parameter.
// With a loss that is a mean over equally many samples everywhere, that is the gradient of the mean
// over the global batch.
//
// Method: units (unit.h), whose parameters come and go (gather.h) and whose gradients are reduced
// (reduce.h) while autograd computes others, started by hooks on blocks' outputs and by gradients
// that arrive (arrivals.h).
// After Li et al., "PyTorch Distributed", VLDB 2020; Rajbhandari et al., "ZeRO", SC 2020; Zhang et
// al., "MiCS", VLDB 2022.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include <ATen/core/Tensor.h>

#include "base/result.h"
#include "train/arrivals.h"
#include "train/blocks.h"
#include "train/buffers.h"
#include "train/finite_looks.h"
#include "train/first_error.h"
#include "train/gather.h"
#include "train/gradient_hooks.h"
#include "train/layout.h"
#include "train/mesh.h"
#include "train/module_tensors.h"
#include "train/owned.h"
#include "train/policy.h"
#include "train/readers.h"
#include "train/recompute.h"
#include "train/reduce.h"
#include "train/roll_call.h"
#include "train/unit.h"

namespace lockstep {

enum class Sync {
  later,  // more micro-steps of this step follow
  now,    // the step's last micro-step
};

// What the micro-steps of a step come to.
enum class MicroSteps {
  mean,
  sum,  // as torch's own backward adds them up
};

// Used by one thread. The module's parameters stay views of the model's buffers, also after the
// model is gone; those that the policy divides have no memory then.
class ShardedModel {
 public:
  ~ShardedModel();
  ShardedModel(const ShardedModel&) = delete;
  ShardedModel& operator=(const ShardedModel&) = delete;

  // block.forward(inputs...), with the block's parameters there, now and in its backward. What
  // fails in this is told by the next call that returns a Result, and the output is undefined.
  // A module that is none of the blocks runs as it is. Without autograd (NoGradGuard) it is
  // gathered and released all the same: every rank of a shard group runs it. Where the policy
  // recomputes, the block must live until its backward, and the inputs are copied.
  template <class Block, class... Inputs>
  at::Tensor operator()(Block& block, Inputs&&... inputs) {
    std::vector<at::Tensor> tensors;
    (collect(tensors, inputs), ...);
    at::Tensor output;
    if (recomputes(block)) {
      output = recompute(block, tensors,
                         [&block, args = std::tuple<std::decay_t<Inputs>...>(inputs...)](
                             const std::vector<at::Tensor>& given) {
                           auto next = given.begin();
                           return std::apply(
                               [&](auto... each) {
                                 (replace(each, next), ...);
                                 return block.forward(each...);
                               },
                               args);
                         });
    } else {
      const int index = enter(block, tensors);
      output = block.forward(std::forward<Inputs>(inputs)...);
      leave(index, {output});
    }
    look(block, {output});
    return output;
  }
  // All children of a torch::nn::Sequential, one after the other.
  at::Tensor forward(const at::Tensor& input);

  // The first backward of a step starts from zero; no zero_grad is needed. After an error the
  // gradients are undefined and the ranks out of step: go on from a checkpoint.
  Result<void> backward(const at::Tensor& loss, Sync sync);
  // Waits for the reductions that backward(loss, Sync::now) started.
  Result<void> finish_gradients();

  // The parts of the above, for who runs modules and autograd himself (hooked.h).
  // Around a block's forward: its inputs, and its outputs with what enter() gave.
  int enter(const torch::nn::Module& module, const std::vector<at::Tensor>& inputs);
  void leave(int block, const std::vector<at::Tensor>& outputs);
  // At a block's outputs, behind its forward: whether they are finite.
  void look(const torch::nn::Module& module, const std::vector<at::Tensor>& outputs);
  // Around a backward: before the first gradient is added to a parameter, and after the last.
  Result<void> begin_backward(Sync sync, MicroSteps micro_steps = MicroSteps::mean);
  Result<void> end_backward();
  bool in_backward() const { return arrivals_->in_backward(); }
  // The next backward starts from zero, whatever micro-steps came before.
  void forget_gradients();
  // Goes on in other groups, in which this rank has the same place of a shard group as large as
  // before: so it keeps its slices, and nothing moves. Leaves the groups before, in which what is
  // under way ends, with the broken step and its error. Masters, and gradients of a step that
  // finish_gradients() completed, stay as they are.
  Result<void> regroup(Mesh mesh);
  // Goes on in other groups, of another number of ranks, by a policy that fits them: lays all out
  // anew in place, under the module's same parameters. What they held is gone: all of state() is to
  // be written, and spread(), before use, and an optimizer's slices are others. Collective.
  Result<void> reshard(Mesh mesh, const Policy& policy);
  // After this rank's masters of the units were written to: gives every rank what it holds of the
  // others' slices. Collective. begin_spread() does not wait for the parameters of blocks that ran
  // through the model since it was last called: that is done when they run again.
  Result<void> spread();
  Result<void> begin_spread();
  // Waits for all that begin_spread() left. To be called after an optimizer's step before
  // parameters are read by others than blocks that run through the model.
  Result<void> settle();
  // Buffers such as running statistics follow the data of each rank. Makes them equal: floats the
  // mean over the ranks, all others rank 0's. Collective.
  Result<void> average_buffers();
  // Of the step whose gradients are finished and whose norm is not finite: who had the first value
  // that is not, and where. Collective.
  Result<NotFinite> first_not_finite();
  // The ranks have decided on the step.
  void forget_looks() { looks_.forget(); }
  // What went wrong where no Result could be returned, such as in a block's forward.
  Result<void> status() const { return error_.outcome(); }

  // Trainable parameters and buffers under the module's names; a shared one once, under its first.
  const std::vector<NamedTensor>& parameters() const { return tensors_.trainable; }
  const std::vector<NamedTensor>& buffers() const { return tensors_.buffers; }
  // Of the parameters that do not require a gradient those that are whole on every rank: all but
  // those of blocks that come and go.
  const std::vector<NamedTensor>& frozen() const { return tensors_.frozen; }
  // Of all of these what this rank holds: "parameter/head.weight", "buffer/norm.mean"; parameters
  // of 16-bit floats in the 32 bits of their masters. After writing to them: spread(). Waits for
  // readers.
  std::vector<OwnedTensor> state() const;

  // Of what state() gave as steady. To be awaited before it changes.
  const std::shared_ptr<Readers>& readers() const { return readers_; }

  // As asked for, or as it was chosen.
  const Policy& policy() const { return policy_; }
  const Layout& layout() const { return layout_; }
  const std::vector<Unit>& units() const { return units_; }
  Mesh& mesh() { return mesh_; }
  // How many buffers of the largest unit's size were in use at once at most: by gathered parameters
  // and by gradients under way.
  int most_buffers() const { return wholes_->most(); }

 private:
  friend Result<std::unique_ptr<ShardedModel>> shard(torch::nn::Module&, Mesh, const Policy&,
                                                     const std::vector<torch::nn::Module*>&,
                                                     Values);
  ShardedModel(Mesh mesh, Blocks blocks);
  Result<void> decide(const Policy& asked);
  Result<Policy> choose(const Policy& asked);
  Result<void> build(Values values);
  void start_engine();
  void leave_groups(Mesh next);
  Result<void> build_layout(Values values);
  Result<void> equalize();
  static void collect(std::vector<at::Tensor>& tensors, const at::Tensor& input) {
    if (input.defined()) tensors.push_back(input);
  }
  template <class Other>
  static void collect(std::vector<at::Tensor>&, const Other&) {}
  static void replace(at::Tensor& input, std::vector<at::Tensor>::const_iterator& next) {
    if (input.defined()) input = *next++;
  }
  template <class Other>
  static void replace(Other&, std::vector<at::Tensor>::const_iterator&) {}
  bool recomputes(const torch::nn::Module& module) const;
  at::Tensor recompute(const torch::nn::Module& module, const std::vector<at::Tensor>& inputs,
                       BlockForward forward);
  void watch_end_of_backward(int block, const std::vector<at::Tensor>& inputs);
  Result<void> run_backward(const at::Tensor& loss);

  enum class Phase { finished, accumulating, reducing };

  Mesh mesh_;
  Blocks blocks_;
  std::vector<Stage> stages_;
  ModuleTensors tensors_;
  Policy policy_;
  Layout layout_;
  std::vector<Unit> units_;
  // Of which a save in flight may be the last to know.
  std::shared_ptr<Readers> readers_ = std::make_shared<Readers>();
  FirstError error_;
  FiniteLooks looks_;
  std::unique_ptr<Buffers> wholes_, frozen_wholes_;
  std::unique_ptr<RollCall> roll_call_;
  std::shared_ptr<Gathers> gathers_;  // blocks' outputs point to it weakly: a graph may outlive it
  std::unique_ptr<Reductions> reductions_;
  std::shared_ptr<Arrivals> arrivals_;  // graphs point to it weakly, too
  GradientHooks hooks_;

  Phase phase_ = Phase::finished;
  int micro_steps_ = 0;
};

// Rank 0's parameters and buffers become everybody's. blocks: what is gathered one at a time where
// the policy divides parameters; of a torch::nn::Sequential its children, without being named. The
// module needs not outlive the call, its tensors do, and a Sequential if forward() is called. Cuts
// the mesh into shard groups as the policy says. Refuses a module that is sharded already, and
// parameters on several devices. Values::to_come: nothing is spread, what the module holds is not
// looked at, and all of state() is to be written, and spread(), before use.
Result<std::unique_ptr<ShardedModel>> shard(torch::nn::Module& module, Mesh mesh,
                                            const Policy& policy = {},
                                            const std::vector<torch::nn::Module*>& blocks = {},
                                            Values values = Values::of_rank_0);

}  // namespace lockstep
