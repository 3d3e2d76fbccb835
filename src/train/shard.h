// shard(module, mesh, policy): a module whose replicas train as one.
//
//   auto model = TRY(shard(*module, mesh, Policy{}));
//   for (...) {
//     TRY(model->backward(loss_of(module, batch), Sync::now));
//     TRY(model->finish_gradients());
//     TRY(optimizer->step());
//   }
//
// Method (data parallel; Li et al., "PyTorch Distributed", VLDB 2020). Gradients of a unit live in
// one flat buffer. A hook on each parameter counts down as autograd finishes its gradient; when the
// unit's last one is there, the all-reduce of the buffer starts while backward goes on with earlier
// layers. Units start in one fixed order on every rank, whatever order their gradients come in, so
// that ranks whose control flow differs still match each other's transfers. What backward never
// reached counts as a gradient of zero, and its unit is reduced at the end.
//
// What the gradient is: the mean over ranks and micro-steps of each rank's d loss / d parameter.
// With a loss that is a mean over equally many samples everywhere, that is the gradient of the mean
// over the global batch.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include <ATen/core/Tensor.h>

#include "base/result.h"
#include "train/layout.h"
#include "train/mesh.h"
#include "train/policy.h"
#include "train/unit.h"

namespace lockstep {

struct NamedTensor {
  std::string name;
  at::Tensor tensor;
};

enum class Sync {
  later,  // add to this rank's gradients only: more micro-steps follow
  now,    // the step's last micro-step: reduce over the ranks
};

// Used by one thread. The module's parameters and gradients stay views of the model's buffers, also
// after the model is gone.
class ShardedModel {
 public:
  ~ShardedModel();
  ShardedModel(const ShardedModel&) = delete;
  ShardedModel& operator=(const ShardedModel&) = delete;

  // The first backward of a step starts from zero; no zero_grad is needed. After an error the
  // gradients are undefined and the ranks out of step: go on from a checkpoint.
  Result<void> backward(const at::Tensor& loss, Sync sync);
  // Waits for the reductions that backward(loss, Sync::now) started.
  Result<void> finish_gradients();

  // Trainable parameters and buffers under the module's names; a shared one once, under its first.
  const std::vector<NamedTensor>& parameters() const { return parameters_; }
  const std::vector<NamedTensor>& buffers() const { return buffers_; }
  // Parameters that do not require a gradient: left as they are, but checkpointed.
  const std::vector<NamedTensor>& frozen() const { return frozen_; }

  const Layout& layout() const { return layout_; }
  const std::vector<Unit>& units() const { return units_; }
  Mesh& mesh() { return mesh_; }

 private:
  friend Result<std::unique_ptr<ShardedModel>> shard(torch::nn::Module&, Mesh, const Policy&);
  struct Hooks;

  explicit ShardedModel(Mesh mesh);
  Result<void> build(const Policy& policy);
  Result<void> equalize();
  void install_hooks();
  void gradient_ready(std::size_t parameter);
  void start_complete_units();
  Result<void> run_backward(const at::Tensor& loss);

  enum class Phase { finished, accumulating, reducing };

  Mesh mesh_;
  std::vector<NamedTensor> parameters_;
  std::vector<NamedTensor> buffers_;
  std::vector<NamedTensor> frozen_;
  Layout layout_;
  std::vector<Unit> units_;
  std::unique_ptr<Hooks> hooks_;

  Phase phase_ = Phase::finished;
  int micro_steps_ = 0;
  std::vector<bool> ready_;           // by parameter, in this backward
  std::vector<Transfer> reductions_;  // of the units started so far, in order
  std::string arrived_twice_;         // name of a parameter, if it happened
};

// Rank 0's parameters and buffers become everybody's. The module needs not outlive the call, its
// tensors do. Refuses a module that is sharded already, and parameters on several devices.
Result<std::unique_ptr<ShardedModel>> shard(torch::nn::Module& module, Mesh mesh,
                                            const Policy& policy = {});

}  // namespace lockstep
