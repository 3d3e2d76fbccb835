// HookedModel: a sharded model whose forward and backward somebody else runs, as Python does: its
// hooks tell of blocks' forwards, autograd itself of backward, and any optimizer steps the slices
// that it is lent.
//
//   backward   A hook on each parameter, which autograd calls before it adds to the gradient,
//   begins
//              it once a pass; autograd's callback at the end of the pass ends it and, in the last
//              micro-step, waits for the reductions. So loss.backward() is all that is called.
//   gradients  The sum over micro-steps, as torch adds up, of the mean over ranks. Where a rank has
//              only its part of that, param.grad is a tensor that raises when it is read.
//   step       begin_step() agrees; then each parameter that is lent stands for its slice, and its
//              gradient for that slice's; end_step() takes back, and gathers what others stepped.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <ATen/core/Tensor.h>

#include "base/result.h"
#include "train/mesh.h"
#include "train/optimizer.h"
#include "train/policy.h"
#include "train/shard.h"

namespace torch::nn {
class Module;
}

namespace lockstep {

// Used by one thread at a time.
class HookedModel {
 public:
  // As shard(). Keeps the module. blocks: enter() and leave() know them by their place here.
  static Result<std::unique_ptr<HookedModel>> create(std::shared_ptr<torch::nn::Module> module,
                                                     Mesh mesh, const Policy& policy,
                                                     std::vector<torch::nn::Module*> blocks,
                                                     Values values);
  ~HookedModel();

  ShardedModel& model() { return *model_; }
  const ShardedModel& model() const { return *model_; }

  // Before a forward of the whole: refuses a module whose parameters were replaced, moved, cast or
  // frozen since, and a model whose backward or step did not end.
  Result<void> check() const;
  // Around a block's forward. What fails is told at once.
  Result<void> enter(int block, const std::vector<at::Tensor>& inputs);
  Result<void> leave(int block, const std::vector<at::Tensor>& outputs);

  // Whether backward completes a step's gradients (as at first) or more micro-steps follow.
  void set_sync(Sync sync) { sync_ = sync; }
  Sync sync() const { return sync_; }

  // What all ranks agree on; the first call after a backward asks them, and clips if it is told to
  // (before begin_step, or with it). Further calls of the same step give the same.
  Result<Step> begin_step(std::optional<double> clip_norm = std::nullopt);
  const Step& agreed() const { return agreed_; }  // on which they agreed last
  // Whether a rank's slice of a parameter is all of it, in its own shape.
  bool slices_are_whole() const;
  // From now until end_step() the parameter, by its number in model().parameters(), stands for its
  // slice, and its gradient for that slice's; if nothing of it is this rank's, it has no gradient.
  void lend(std::size_t parameter);
  // Decisions, as of stepper.h.
  std::int64_t decided() const { return decided_; }
  void set_decided(std::int64_t decided) { decided_ = decided; }
  bool undecided() const { return stage_ == Stage::complete; }
  double last_norm() const { return agreed_.gradient_norm; }
  // Whether this rank has a decision that no optimizer has taken.
  bool untaken() const { return stage_ == Stage::agreed; }
  // Takes a decision that others have got: the optimizer's next step, with which nobody else keeps
  // step. Afterwards model().spread().
  void decide(double norm);
  void take_alone() { alone_ = true; }
  // After a death: forgets the step that it broke, whose groups the model has left.
  void forget_step();

  // Instead of lending, where no step is to be taken.
  void drop_gradients();
  Result<void> end_step();

  // This rank's elements of a tensor of the optimizer that is like a lent parameter.
  OwnedTensor owned_like(const std::string& name, std::size_t parameter, at::Tensor tensor) const;

 private:
  struct Hooks;
  // What has become of the gradients.
  enum class Stage {
    none,      // there are none
    partial,   // some micro-steps have been taken
    complete,  // wait for a step
    agreed,    // the ranks have agreed on one
    stepped,   // an optimizer has taken it; others may
  };

  HookedModel() = default;
  void install_hooks();
  void come_to(double norm);
  void begin_backward();
  void end_backward();
  bool gradients_were_dropped() const;
  void hide_gradients();
  void show_gradients();
  Result<void> check_gradients() const;

  std::shared_ptr<torch::nn::Module> module_;  // shared: its tensors are also somebody else's
  std::vector<torch::nn::Module*> blocks_;
  std::vector<int> entered_;  // by block: what the model's enter() gave
  std::unique_ptr<ShardedModel> model_;
  std::shared_ptr<Hooks> hooks_;  // autograd's hooks point to it weakly: graphs may outlive it
  at::Tensor hidden_;             // one element, which may not be read
  Sync sync_ = Sync::now;
  Stage stage_ = Stage::none;
  Step agreed_;
  std::optional<double> clip_norm_;  // of the decision that is being made
  std::int64_t decided_ = 0;         // steps
  bool alone_ = false;               // this rank takes a step without the others
  struct Lent {
    std::size_t parameter;
    at::Tensor before;  // as what it stood
  };
  std::vector<Lent> lent_;
};

}  // namespace lockstep
