// Data-parallel training of a torch module on many ranks: DDP, ZeRO-1 to 3 and MiCS, by one line of
// policy. Link Lockstep::train, which brings torch.
//
//   auto group = lockstep::Group::connect().value();
//   Net net;                                                   // a torch::nn::Module
//   auto model = lockstep::shard(net, group, {.policy = "zero2"}).value();
//   auto optimizer = lockstep::Optimizer::create(model, {.learning_rate = 3e-4}).value();
//   for (int step = 0; step < 1000; ++step) {
//     model.backward(loss_of(net, batch)).value();
//     model.finish_gradients().value();
//     optimizer.step().value();
//   }
//
// The gradient is the mean over ranks and micro-steps of each rank's d loss / d parameter. With a
// loss that is a mean over equally many samples on each rank, that is the gradient of the mean over
// the global batch. Losses are bitwise equal from run to run with the same ranks.
//
// A failed call names the rank at fault. After it the gradients are undefined and the ranks out of
// step: continue with the other ranks (recovery.h), or resume from a checkpoint (checkpoint.h).
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <ATen/core/Tensor.h>

#include "lockstep/block_call.h"
#include "lockstep/data_type.h"
#include "lockstep/export.h"
#include "lockstep/result.h"
#include "lockstep/train_types.h"

namespace torch::nn {
class Module;
}

namespace lockstep {

struct Internals;  // of the library

// A transfer in flight. Its tensor must stay alive, and must not be used, until wait() has
// returned.
class LOCKSTEP_EXPORT Transfer {
 public:
  // Returns within the timeout of the group.
  Result<void> wait();

 private:
  friend struct Internals;
  struct Impl;
  std::shared_ptr<Impl> impl_;
};

// The implementation of the collectives.
enum class Backend {
  lockstep,
  gloo,  // PyTorch's, to compare with; without recovery
};

struct ConnectOptions {
  Backend backend = Backend::lockstep;
  std::chrono::microseconds timeout = std::chrono::minutes(10);  // of each wait for other ranks
};

// Ranks that train together. Copies share the connections.
class LOCKSTEP_EXPORT Group {
 public:
  // All ranks of the job, from the environment that lockstep run or torchrun sets. Collective. Each
  // call makes connections of its own.
  static Result<Group> connect(const ConnectOptions& options = {});
  // This process alone.
  static Group single();
  // All ranks of the job, not connected to each other: for parameter servers, policy ps:K, where a
  // worker may end or join without the others. No collective may be called on it.
  static Result<Group> apart(const ConnectOptions& options = {});

  int rank() const;
  int size() const;
  // The reduction of each rank's number. label names it in errors and flight records.
  Result<double> all_reduce(double value, ReduceOp op, std::string_view label = "a number");
  // In place: on every rank the reduction of all ranks' tensors, which are contiguous and have one
  // shape and type.
  Transfer all_reduce(const at::Tensor& tensor, ReduceOp op, std::string_view label = "a tensor");

 private:
  friend struct Internals;
  Group() = default;
  struct Impl;
  std::shared_ptr<Impl> impl_;
};

struct ShardOptions {
  // ddp, zero1, zero2, zero3, mics:P, mics:P+opt or auto, then +keep or +recompute
  // (docs/guide/train.md), or ps:K (docs/guide/parameter-server.md). auto chooses the smallest
  // group with which the training fits into memory.
  std::string policy = "ddp";
  // The modules whose parameters are gathered one module at a time, if the policy divides
  // parameters. For a torch::nn::Sequential its children, without being named.
  std::vector<torch::nn::Module*> blocks = {};
};

// With parameter servers: one of the equal shares of a step's batch.
struct WorkerTask {
  std::int64_t step = 0;  // counted from 0
  int share = 0;
  int shares = 1;
};

// A module that the ranks of a group train together. For one thread.
class LOCKSTEP_EXPORT ShardedModel {
 public:
  ShardedModel(ShardedModel&&) noexcept;
  ShardedModel& operator=(ShardedModel&&) noexcept;
  ~ShardedModel();

  // block.forward(inputs...) with the block's parameters gathered, now and in its backward. Needed
  // for each block if the policy divides parameters; other modules run unchanged. The next call
  // that returns a Result returns an error of this one, and the output is undefined. If the policy
  // recomputes, the block must live until its backward.
  template <class Block, class... Inputs>
  at::Tensor operator()(Block& block, const Inputs&... inputs) {
    return run_block(block, block_call(block, inputs...));
  }
  // All children of a torch::nn::Sequential, one after the other.
  at::Tensor forward(const at::Tensor& input);

  // Adds the loss's gradients to those of the step. The first backward of a step starts from zero:
  // no zero_grad is needed. Sync::later: more micro-steps follow.
  Result<void> backward(const at::Tensor& loss, Sync sync = Sync::now);
  // Waits for the reductions that backward(loss, Sync::now) started.
  Result<void> finish_gradients();
  // Buffers such as running statistics: floats become the mean over the ranks, others rank 0's.
  // Collective.
  Result<void> average_buffers();

  // "zero2 (1, 4, 4)": over how many ranks parameters, gradients and optimizer state are divided.
  std::string policy() const;
  // All ranks, with the numbers that they have now. With parameter servers a worker's has itself
  // only, and a server's all servers.
  Group group() const;

  // With policy ps:K: true on a server, which calls serve_parameters().
  bool is_server() const;
  // On a worker: what it computes next, which the optimizer's step changes. Nothing elsewhere.
  std::optional<WorkerTask> task() const;

 private:
  friend struct Internals;
  at::Tensor run_block(const torch::nn::Module& block, const BlockCall& call);

  struct Impl;
  explicit ShardedModel(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

// Broadcasts rank 0's parameters and buffers, and divides them as the policy says. The module's
// parameters become views of the model's memory; its tensors must outlive the model. Collective.
// invalid: a policy that does not fit the number of ranks, a module that is sharded already,
// parameters on several devices.
LOCKSTEP_EXPORT Result<ShardedModel> shard(torch::nn::Module& module, const Group& group,
                                           const ShardOptions& options = {});

struct StepOutcome {
  bool taken = false;           // false: some gradient was infinite or not a number
  double gradient_norm = 0;     // before clipping; infinity if not finite
  std::string non_finite = {};  // for people: which rank had the first such value, and where
  // The floating-point operations of a step of this rank, forward and backward, without those that
  // recomputation repeats. Counted in the 10th step, then in one step a minute; nothing until then.
  // Report them as the metric "flops": lockstep usage sums them.
  std::optional<double> flops = std::nullopt;
};

// AdamW or SGD over this rank's slices of the parameters. The ranks agree on each step: either all
// take it or none. The model must outlive it.
class LOCKSTEP_EXPORT Optimizer {
 public:
  static Result<Optimizer> create(ShardedModel& model, const OptimizerOptions& options = {});
  Optimizer(Optimizer&&) noexcept;
  Optimizer& operator=(Optimizer&&) noexcept;
  ~Optimizer();

  // After model.finish_gradients(). Collective.
  Result<StepOutcome> step();
  // The rate of the next step: the last one set, scaled if fewer ranks continue with a smaller
  // batch.
  double learning_rate() const;
  void set_learning_rate(double rate);

 private:
  friend struct Internals;
  struct Impl;
  explicit Optimizer(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

// On a server of policy ps:K: applies the workers' updates until all workers have left, or
// on_update returns an error; returns the number of steps since the start of the training.
// first_step: the steps that model and optimizer have from a checkpoint. on_update(step), with the
// steps up to now, is called after each; it may save, since all servers call it. At the end each
// server's module has all parameters. Every server calls it, once for a model.
LOCKSTEP_EXPORT Result<std::int64_t> serve_parameters(
    ShardedModel& model, Optimizer& optimizer, std::int64_t first_step = 0,
    const std::function<Result<void>(std::int64_t step)>& on_update = {});

// The order of the samples: a random one that visits each sample once an epoch. Batch k has the
// same samples for any number of ranks, and a checkpoint keeps its position.
class LOCKSTEP_EXPORT Sampler {
 public:
  // samples: of the data set. global_batch: samples a step, over all ranks. invalid: below one.
  static Result<Sampler> create(std::int64_t samples, std::int64_t global_batch,
                                std::uint64_t seed);
  Sampler(Sampler&&) noexcept;
  Sampler& operator=(Sampler&&) noexcept;
  ~Sampler();

  // This rank's equal share of the next batch; moves on by the whole batch. invalid: the batch does
  // not divide among the ranks.
  Result<std::vector<std::int64_t>> next(int rank, int ranks);
  // Samples begin to end of the next batch, without moving on: for shares of unequal size.
  std::vector<std::int64_t> peek(std::int64_t begin, std::int64_t end) const;
  void advance();
  // Samples of a task of parameter servers; moves to the batch of its step. invalid: as next().
  Result<std::vector<std::int64_t>> of_task(const WorkerTask& task);
  std::int64_t global_batch() const;

 private:
  friend struct Internals;
  struct Impl;
  explicit Sampler(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

// One rank's micro-batches of a global batch, which need not divide evenly. Multiply the mean loss
// of each by its weight. invalid: fewer samples than ranks.
LOCKSTEP_EXPORT Result<std::vector<MicroBatch>> micro_batches_of(const BatchShape& shape, int rank,
                                                                 int ranks);

}  // namespace lockstep
