#include "lockstep/train.h"

#include <chrono>
#include <string>
#include <utility>

#include <torch/csrc/distributed/c10d/ProcessGroup.hpp>

#include "comm/torch/connect.h"
#include "library/train/gloo.h"
#include "library/train/internals.h"
#include "train/data/batch.h"
#include "train/parameter_server/meeting.h"
#include "train/parameter_server/serve.h"
#include "train/policy.h"

namespace lockstep {

struct Transfer::Impl {
  train::Transfer transfer;
};

Result<void> Transfer::wait() { return impl_ ? impl_->transfer.wait() : Result<void>(); }

Transfer Internals::transfer(train::Transfer transfer) {
  Transfer result;
  result.impl_ = std::make_shared<Transfer::Impl>(Transfer::Impl{std::move(transfer)});
  return result;
}

Result<Group> Group::connect(const ConnectOptions& options) {
  auto ranks =
      TRY(options.backend == Backend::gloo ? connect_gloo(options.timeout)
                                           : comm::connect_from_environment(options.timeout));
  return Internals::group(TRY(train::Mesh::replicas(std::move(ranks), options.timeout)));
}

Group Group::single() { return Internals::group(train::Mesh::single()); }

Result<Group> Group::apart(const ConnectOptions& options) {
  if (options.backend == Backend::gloo)
    return Error{Code::invalid, "parameter servers work over Lockstep's own backend only"};
  return Internals::group(
      train::Mesh::apart(TRY(train::Meeting::from_environment(options.timeout))));
}

int Group::rank() const { return impl_->mesh.rank(); }
int Group::size() const { return impl_->mesh.world_size(); }

Result<double> Group::all_reduce(double value, ReduceOp op, std::string_view label) {
  return impl_->mesh.world().all_reduce(value, op, label);
}

Transfer Group::all_reduce(const at::Tensor& tensor, ReduceOp op, std::string_view label) {
  return Internals::transfer(impl_->mesh.world().all_reduce(tensor, op, label));
}

ShardedModel::ShardedModel(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
ShardedModel::ShardedModel(ShardedModel&&) noexcept = default;
ShardedModel& ShardedModel::operator=(ShardedModel&&) noexcept = default;
ShardedModel::~ShardedModel() = default;

at::Tensor ShardedModel::run_block(const torch::nn::Module& block, const BlockCall& call) {
  return impl_->model->run_block(block, call);
}

at::Tensor ShardedModel::forward(const at::Tensor& input) { return impl_->model->forward(input); }

Result<void> ShardedModel::backward(const at::Tensor& loss, Sync sync) {
  return impl_->model->backward(loss, sync);
}

Result<void> ShardedModel::finish_gradients() { return impl_->model->finish_gradients(); }
Result<void> ShardedModel::average_buffers() { return impl_->model->average_buffers(); }

std::string ShardedModel::policy() const {
  return text(impl_->model->policy(), impl_->model->mesh().world_size());
}

bool ShardedModel::is_server() const { return impl_->model->parameter_server() != nullptr; }

std::optional<WorkerTask> ShardedModel::task() const {
  const auto* worker = impl_->model->parameter_worker();
  if (worker == nullptr) return std::nullopt;
  return WorkerTask{worker->task().step, worker->task().share, worker->shares()};
}

Group ShardedModel::group() const { return Internals::group(impl_->model->mesh()); }

Result<ShardedModel> shard(torch::nn::Module& module, const Group& group,
                           const ShardOptions& options) {
  const auto policy = TRY(train::parse_policy(options.policy, group.size()));
  return Internals::sharded(TRY(train::shard(module, Internals::of(group), policy, options.blocks,
                                             Internals::initial_values(group))));
}

Optimizer::Optimizer(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Optimizer::Optimizer(Optimizer&&) noexcept = default;
Optimizer& Optimizer::operator=(Optimizer&&) noexcept = default;
Optimizer::~Optimizer() = default;

Result<Optimizer> Optimizer::create(ShardedModel& model, const OptimizerOptions& options) {
  auto optimizer = TRY(train::Optimizer::create(Internals::of(model), options));
  return Optimizer(std::make_unique<Impl>(Impl{std::move(optimizer)}));
}

Result<StepOutcome> Optimizer::step() {
  const auto outcome = TRY(impl_->optimizer->step());
  return StepOutcome{.taken = outcome.taken,
                     .gradient_norm = outcome.gradient_norm,
                     .non_finite = outcome.non_finite ? outcome.non_finite->describe() : "",
                     .flops = impl_->flops.end_step(std::chrono::steady_clock::now())};
}

double Optimizer::learning_rate() const { return impl_->optimizer->learning_rate(); }
void Optimizer::set_learning_rate(double rate) { impl_->optimizer->set_learning_rate(rate); }

Sampler::Sampler(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Sampler::Sampler(Sampler&&) noexcept = default;
Sampler& Sampler::operator=(Sampler&&) noexcept = default;
Sampler::~Sampler() = default;

Result<std::int64_t> serve_parameters(ShardedModel& model, Optimizer& optimizer,
                                      std::int64_t first_step,
                                      const std::function<Result<void>(std::int64_t)>& on_update) {
  return train::serve_parameters(Internals::of(model), Internals::of(optimizer), first_step,
                                 on_update);
}

Result<Sampler> Sampler::create(std::int64_t samples, std::int64_t global_batch,
                                std::uint64_t seed) {
  auto sampler = TRY(train::Sampler::create(samples, global_batch, seed));
  return Sampler(std::make_unique<Impl>(Impl{std::move(sampler)}));
}

Result<std::vector<std::int64_t>> Sampler::next(int rank, int ranks) {
  return impl_->sampler.next(rank, ranks);
}

std::vector<std::int64_t> Sampler::peek(std::int64_t begin, std::int64_t end) const {
  return impl_->sampler.peek(begin, end);
}

void Sampler::advance() { impl_->sampler.advance(); }

Result<std::vector<std::int64_t>> Sampler::of_task(const WorkerTask& task) {
  impl_->sampler.seek(task.step);
  return impl_->sampler.next(task.share, task.shares);
}

std::int64_t Sampler::global_batch() const { return impl_->sampler.global_batch(); }

Result<std::vector<MicroBatch>> micro_batches_of(const BatchShape& shape, int rank, int ranks) {
  return train::micro_batches_of(shape, rank, ranks);
}

}  // namespace lockstep
