// AutogradEngine: a sharded model whose forward and backward run outside of it, as in Python. Its
// hooks report blocks' forwards, autograd itself reports backward, and any optimizer steps the
// slices that are swapped in.
//
// backward begins: A hook on each parameter, which autograd calls before it adds to the gradient,
// detects it once a pass. Autograd's callback at the end of the pass ends it and, in the last
// micro-step, waits for the reductions. So the program calls only loss.backward().
//
// gradients: The sum over micro-steps, as torch adds up, of the mean over ranks. On a rank that has
// only a part of a gradient, param.grad is a tensor that raises when it is read.
//
// step: begin_step() agrees on the step. Then each parameter that is swapped in stands for its
// slice, and its gradient for the gradient of that slice. end_step() swaps the parameters back, and
// gathers the slices that other ranks stepped.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <ATen/core/Tensor.h>

#include "base/result.h"
#include "train/group/mesh.h"
#include "train/optimizer/optimizer.h"
#include "train/optimizer/whole_parameters.h"
#include "train/parameter_server/worker.h"
#include "train/policy.h"
#include "train/shard.h"

namespace torch::nn {
class Module;
}

namespace lockstep::train {

// Used by one thread at a time.
class AutogradEngine {
 public:
  // See shard(). Keeps the module. blocks: pre_forward() and post_forward() take their index in it.
  static Result<std::unique_ptr<AutogradEngine>> create(std::shared_ptr<torch::nn::Module> module,
                                                        Mesh mesh, const Policy& policy,
                                                        std::vector<torch::nn::Module*> blocks,
                                                        InitialValues values);
  ~AutogradEngine();

  ShardedModel& model() { return *model_; }
  const ShardedModel& model() const { return *model_; }

  // Before a forward of the whole module: refuses a module whose parameters were replaced, moved,
  // cast or frozen since, and a model whose backward or step did not end.
  Result<void> check() const;
  // Called around a block's forward. An error is returned at once.
  Result<void> pre_forward(int block, const std::vector<at::Tensor>& inputs);
  Result<void> post_forward(int block, const std::vector<at::Tensor>& outputs);

  // Sets whether backward completes a step's gradients (the default) or more micro-steps follow.
  void set_sync(Sync sync) { sync_ = sync; }
  Sync sync() const { return sync_; }

  // The tensors that stand for gradients of which this rank has a part only, by parameter.
  void set_hidden_gradients(std::vector<at::Tensor> hidden);
  // For a loss scaler: multiplies this rank's slices of the gradients, and sets found_inf, of one
  // element, to 1 if any rank's are not finite. Collective.
  Result<void> unscale_gradients(const std::vector<std::size_t>& parameters, at::Tensor found_inf,
                                 const at::Tensor& inverse_scale);

  // The outcome on which all ranks agree. The first call after a backward communicates, and clips
  // if a clip norm is given (before begin_step, or with it). Further calls of the same step return
  // the same.
  Result<StepOutcome> begin_step(std::optional<double> clip_norm = std::nullopt);
  const StepOutcome& agreed_step() const { return agreed_step_; }  // the latest
  // True if a rank's slice of a parameter is all of it, in its own shape.
  bool slices_are_whole() const;
  // From now until end_step() the parameter, by its index in model().parameters(), stands for its
  // slice, and its gradient for the gradient of that slice. If this rank has no element of it, it
  // has no gradient.
  void swap_in_slice(std::size_t parameter);
  // The same with whole parameters, in their shapes, and only at their owners: other ranks have no
  // gradients of them. For all parameters of an optimizer at once, of which there must be slices.
  // Collective.
  Result<void> swap_in_whole(std::vector<OwnedParameter> parameters);
  // Decisions, see resumable_optimizer.h.
  std::int64_t decided_steps() const { return decided_steps_; }
  void set_decided_steps(std::int64_t decided) { decided_steps_ = decided; }
  bool awaits_decision() const { return gradient_state_ == GradientState::complete; }
  double last_norm() const { return agreed_step_.gradient_norm; }
  // True if this rank has a decision that no optimizer has taken.
  bool has_untaken_decision() const { return gradient_state_ == GradientState::agreed; }
  // Takes a decision that the other ranks have got: the optimizer's next step, which only this rank
  // makes. Call model().sync_parameters() afterwards.
  void set_missed_decision(double norm);
  // For parameter servers: the learning rates of the next step, from a worker to the servers.
  void set_learning_rates(std::vector<double> rates) { report_.learning_rates = std::move(rates); }
  // On a server, before the optimizer steps an update: the gradients are in the slices.
  void begin_update(bool has_gradients);
  void mark_local_step() { is_local_step_ = true; }
  // After a rank is lost: discards the step that failed, whose groups the model has left.
  void discard_step();

  // Instead of swap_in_slice(), where no step is to be taken.
  void drop_gradients();
  Result<void> end_step();

  // This rank's elements of a tensor of the optimizer that has the shape of a swapped-in parameter.
  OwnedTensor owned_like(const std::string& name, std::size_t parameter, at::Tensor tensor) const;

 private:
  struct Hooks;
  // The state of the gradients.
  enum class GradientState {
    none,      // there are none
    partial,   // some micro-steps have been taken
    complete,  // they wait for a step
    agreed,    // the ranks have agreed on one
    stepped,   // an optimizer has stepped; other optimizers may follow
  };

  AutogradEngine() = default;
  void install_hooks();
  void set_decision(double norm);
  void begin_backward();
  void end_backward();
  bool gradients_were_dropped() const;
  void hide_gradients();
  void show_gradients();
  Result<void> return_whole_parameters();
  Result<void> exchange_with_servers();
  void swap_in(std::size_t parameter, const at::Tensor& value, const at::Tensor& gradient);
  Result<void> check_gradients() const;

  std::shared_ptr<torch::nn::Module> module_;  // shared: its tensors are also used elsewhere
  std::vector<torch::nn::Module*> blocks_;
  std::vector<int> entered_;  // by block: the result of the model's pre_forward()
  std::unique_ptr<ShardedModel> model_;
  std::shared_ptr<Hooks> hooks_;  // autograd's hooks point to it weakly: graphs may outlive it
  // In the place of gradients that this rank does not have, by parameter; none: they are undefined.
  std::vector<at::Tensor> hidden_;
  Sync sync_ = Sync::now;
  GradientState gradient_state_ = GradientState::none;
  StepOutcome agreed_step_;
  std::optional<double> clip_norm_;  // for the next decision
  std::int64_t decided_steps_ = 0;   // steps
  bool is_local_step_ = false;       // this rank takes a step without the others
  StepReport report_;                // of the next step, to parameter servers
  bool report_is_due_ = false;
  struct SwappedParameter {
    std::size_t parameter;
    at::Tensor before;  // the tensor that it was before
  };
  std::vector<SwappedParameter> swapped_;
  // After swap_in_whole()
  std::optional<WholeParameters> whole_parameters_;
  std::vector<OwnedParameter> swapped_whole_;
  std::map<std::size_t, WholeParameters::Whole> owned_whole_;
};

}  // namespace lockstep::train
