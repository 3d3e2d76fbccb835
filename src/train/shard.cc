#include "train/shard.h"

#include <algorithm>
#include <utility>

#include <ATen/core/grad_mode.h>
#include <ATen/ops/cat.h>
#include <c10/core/impl/VirtualGuardImpl.h>
#include <torch/csrc/autograd/autograd.h>
#include <torch/nn/module.h>

#include "base/check.h"
#include "base/format.h"
#include "base/log.h"
#include "train/choose_policy.h"
#include "train/engine/device_memory.h"
#include "train/names.h"

namespace lockstep::train {
namespace {

// Each unit has as many slices as ranks over which the optimizer is divided; the slices of a shard
// are adjacent.
SliceIndex slice_of(const Policy& policy, const Mesh& mesh) {
  const int in_shard = policy.optimizer / policy.gradients;  // one, or as many as replicas
  const int index = mesh.shard().rank() * in_shard + (in_shard > 1 ? mesh.replicate().rank() : 0);
  return {index, policy.optimizer};
}

// A whole tensor that every rank has.
OwnedTensor whole(std::string name, const at::Tensor& tensor, bool copies_equal) {
  return {std::move(name),
          tensor.sizes().vec(),
          {0, tensor.numel()},
          tensor.detach().view(-1),
          copies_equal};
}

// The ranks meet at the servers, which keep everything in main memory.
Result<void> check_ranks_apart(const Mesh& mesh, const Policy& policy, at::Device device) {
  const auto name = text(policy, mesh.world_size());
  if (mesh.meeting() == nullptr)
    return Error{
        Code::invalid,
        format("policy {}: the ranks are connected to each other, and the end of one would "
               "end all: connect them by Group::apart(), in Python leave "
               "init_process_group and group= out",
               name)};
  if (!device.is_cpu())
    return Error{Code::invalid, format("policy {}: the model is on {}, and servers and workers "
                                       "exchange main memory: move the model to the CPU, or use "
                                       "another policy",
                                       name, device.str())};
  return {};
}

Result<void> check_blocks(const Policy& policy, const Blocks& blocks, int world_size) {
  if (blocks.count() > 0) return {};
  if (policy.recompute)
    return Error{Code::invalid,
                 format("policy {} runs one unit at a time again, but none is named: "
                        "give shard() the module's blocks",
                        text(policy, world_size))};
  if (policy.parameters == 1) return {};
  return Error{Code::invalid,
               format("policy {} gathers one unit at a time, but none is named: give shard() the "
                      "module's blocks, or use zero2",
                      text(policy, world_size))};
}

std::vector<at::Tensor> tensors_of(const std::vector<NamedTensor>& named) {
  std::vector<at::Tensor> tensors;
  for (const auto& [name, tensor] : named) tensors.push_back(tensor);
  return tensors;
}

}  // namespace

Result<std::unique_ptr<ShardedModel>> shard(torch::nn::Module& module, Mesh mesh,
                                            const Policy& policy,
                                            const std::vector<torch::nn::Module*>& blocks,
                                            InitialValues values) {
  TRY(check(policy, mesh.world_size()));
  auto parts = TRY(Blocks::create(module, blocks));
  std::unique_ptr<ShardedModel> model(new ShardedModel(std::move(mesh), std::move(parts)));
  model->children_ = sequential_children(module);
  model->tensors_ = TRY(ModuleTensors::of(module));
  TRY(model->mesh_.use_device(model->tensors_.device()));
  TRY(model->resolve_policy(policy));
  TRY(model->build(values));
  return model;
}

ShardedModel::ShardedModel(Mesh mesh, Blocks blocks)
    : mesh_(std::move(mesh)), blocks_(std::move(blocks)) {}
ShardedModel::~ShardedModel() { leave_servers(); }

// When no parameters are on their way any more.
void ShardedModel::leave_servers() {
  if (parameter_server_) return parameter_server_->stop();
  if (!parameter_worker_ || !gatherer_) return;
  gatherer_->wait_parameter_sync();
  parameter_worker_->leave();
}

Result<void> ShardedModel::resolve_policy(const Policy& asked) {
  if (asked.has_servers()) return take_server_role(asked);
  if (mesh_.meeting())
    return Error{Code::invalid, format("policy {}: the ranks are apart, for policy ps:K: connect "
                                       "them by Group::connect()",
                                       text(asked, mesh_.world_size()))};
  if (!asked.automatic)
    policy_ = asked;
  else if (mesh_.has_consecutive_shard_groups())
    policy_ = with_group_size(asked, mesh_.shard().size());
  else
    policy_ = TRY(choose(asked));
  TRY(check_blocks(policy_, blocks_, mesh_.world_size()));
  mesh_ = TRY(mesh_.with_shard_groups(policy_.gradients));
  if (policy_.parameters > 1) tensors_.divide_frozen(blocks_);
  return {};
}

// No group has both workers and servers, but those in which they meet. The servers divide all state
// among them; the engine of a worker has parameters and gradients only.
Result<void> ShardedModel::take_server_role(const Policy& asked) {
  TRY(check_ranks_apart(mesh_, asked, tensors_.device()));
  policy_ = asked;
  meeting_ = mesh_.meeting();
  const bool serves = asked.is_server(meeting_->rank());
  if (serves) policy_.optimizer = static_cast<int>(asked.servers.size());
  mesh_ = Mesh::single();
  if (!serves) return {};
  // Two groups: a checkpoint that is being saved uses the first, while parameters are exchanged.
  auto world = TRY(meeting_->connect_servers(asked.servers, "servers"));
  auto replicate = TRY(meeting_->connect_servers(asked.servers, "servers-parameters"));
  mesh_ = Mesh::replicas(std::move(world), std::move(replicate));
  return {};
}

std::vector<at::Tensor> ShardedModel::frozen_and_buffers() const {
  auto tensors = tensors_of(tensors_.frozen);
  for (const auto& [name, tensor] : tensors_.buffers) tensors.push_back(tensor.detach());
  return tensors;
}

Result<void> ShardedModel::connect_servers(InitialValues values) {
  if (!meeting_) return {};
  if (values == InitialValues::deferred && !policy_.is_server(meeting_->rank()))
    return Error{Code::invalid, "a worker's values come from the servers at once"};
  if (policy_.is_server(meeting_->rank()))
    parameter_server_ =
        std::make_unique<ParameterServer>(meeting_, policy_, units_, frozen_and_buffers());
  else
    parameter_worker_ =
        TRY(ParameterWorker::join(*meeting_, policy_, units_, frozen_and_buffers()));
  return {};
}

// All ranks choose by the smallest memory of all.
Result<Policy> ShardedModel::choose(const Policy& asked) {
  const auto placement = TRY(mesh_.rank_placement());
  const auto own =
      asked.memory > 0_B ? asked.memory : TRY(memory_per_rank(tensors_.device(), placement));
  const double least = TRY(mesh_.world().all_reduce(static_cast<double>(own.count()), ReduceOp::min,
                                                    "the devices' memory"));
  const auto choice =
      TRY(choose_policy(asked, tensors_.specs(blocks_, tensors_.frozen), placement,
                        Bytes(static_cast<std::int64_t>(least)), blocks_.count() > 0));
  if (mesh_.rank() == 0) LS_LOG(info, "{}", choice.reason);
  return choice.policy;
}

Result<void> ShardedModel::build_layout(InitialValues values) {
  const bool works_for_servers = meeting_ && !policy_.is_server(meeting_->rank());
  const auto slice = works_for_servers
                         ? SliceIndex{SliceIndex::kNone, static_cast<int>(policy_.servers.size())}
                         : slice_of(policy_, mesh_);
  layout_ = Layout::build(tensors_.specs(blocks_, tensors_.divided_frozen), policy_, slice);
  auto tensors = tensors_of(tensors_.trainable);
  for (const auto& [name, tensor] : tensors_.divided_frozen) tensors.push_back(tensor);
  for (std::size_t i = 0; i < layout_.units.size(); ++i)
    units_.push_back(
        TRY(Unit::create(layout_, static_cast<int>(i), tensors, mesh_, values, policy_.offload)));
  return {};
}

Result<void> ShardedModel::build(InitialValues values) {
  TRY(build_layout(values));
  if (values == InitialValues::broadcast_from_rank_0) TRY(broadcast_frozen_and_buffers());
  TRY(connect_servers(values));
  start_engine();
  for (std::size_t i = 0; i < tensors_.trainable.size(); ++i)
    hooks_.add(tensors_.trainable[i].tensor, [this, i] { gradient_tracker_->on_gradient(i); });
  return {};
}

// Creates what moves parameters and gradients between the ranks of the mesh.
void ShardedModel::start_engine() {
  std::size_t whole = 0;
  std::size_t frozen = 0;
  const auto ranks = static_cast<std::size_t>(mesh_.shard().size());
  for (const auto& unit : units_) {
    if (!unit.trainable()) {
      frozen = std::max(frozen, unit.shard().nbytes() * ranks);
      continue;
    }
    // Gradients may be wider than parameters.
    whole = std::max(whole, unit.gradient_shard().nbytes() * ranks);
  }
  const auto device = tensors_.device();
  const auto bytes = [](std::size_t count) { return Bytes(static_cast<std::int64_t>(count)); };
  unsharded_pool_ = std::make_unique<BufferPool>(mesh_.world(), bytes(whole), device);
  frozen_unsharded_pool_ = std::make_unique<BufferPool>(mesh_.world(), bytes(frozen), device);
  order_checker_ = std::make_unique<CollectiveOrderChecker>(mesh_, unit_names(layout_, blocks_));
  gatherer_ = std::make_shared<ParameterGatherer>(
      units_, layout_, blocks_.count(), policy_, mesh_,
      ParameterGatherer::Pools{*unsharded_pool_, *frozen_unsharded_pool_}, *order_checker_, error_,
      parameter_worker_.get());
  reducer_ =
      std::make_unique<GradientReducer>(units_, mesh_, *unsharded_pool_, *order_checker_,
                                        non_finite_detector_, error_, parameter_worker_.get());
  gradient_tracker_ = std::make_shared<GradientTracker>(
      units_, layout_, blocks_, tensors_.trainable, policy_.recompute,
      GradientTracker::Sinks{*gatherer_, *reducer_});
}

// The units have broadcast the parameters already.
Result<void> ShardedModel::broadcast_frozen_and_buffers() {
  for (const auto* list : {&tensors_.frozen, &tensors_.buffers})
    for (const auto& [name, tensor] : *list)
      TRY(mesh_.world().broadcast(tensor.detach(), 0, name).wait());
  return {};
}

std::vector<OwnedTensor> ShardedModel::state() const {
  snapshot_copies_->wait();
  std::vector<OwnedTensor> state;
  for (std::size_t i = 0; i < layout_.parameters.size(); ++i) {
    const auto& parameter_layout = layout_.parameters[i];
    const auto& unit = units_[static_cast<std::size_t>(parameter_layout.unit)];
    // The program may change a tensor that is whole between steps at any time.
    const bool stable = unit.divided() || !unit.master().is_same(unit.slice());
    state.push_back({"parameter/" + parameter_layout.spec.name, parameter_layout.spec.shape,
                     parameter_layout.owned,
                     Unit::owned_view(unit.master(), layout_, static_cast<int>(i)),
                     /*copies_equal=*/true, stable});
  }
  for (const auto& [name, tensor] : tensors_.frozen)
    state.push_back(whole("parameter/" + name, tensor, /*copies_equal=*/true));
  for (const auto& [name, tensor] : tensors_.buffers)
    state.push_back(whole("buffer/" + name, tensor, /*copies_equal=*/false));
  return state;
}

int ShardedModel::pre_forward(const torch::nn::Module& module,
                              const std::vector<at::Tensor>& inputs) {
  const int block = blocks_.index_of(module);
  if (block == ParameterSpec::kRoot) return block;
  gatherer_->wait_parameter_sync(block);
  if (!gatherer_->has_divided_units(block)) return ParameterSpec::kRoot;
  if (in_backward()) {  // recomputed: its backward follows at once, and releases it
    gatherer_->pre_backward(block);
    return ParameterSpec::kRoot;
  }
  gatherer_->pre_forward(block, at::GradMode::is_enabled());
  if (at::GradMode::is_enabled()) hook_block_inputs(block, inputs);
  return block;
}

// A block's backward is over when the gradients of its inputs have been computed, and a parameter
// without a gradient will get none: so it does not delay its unit until all of backward is over. If
// no input has a gradient it does.
void ShardedModel::hook_block_inputs(int block, const std::vector<at::Tensor>& inputs) {
  bool watched = false;
  for (const auto& input : inputs) {
    if (!input.requires_grad()) continue;
    watched = true;
    gradient_tracker_->expect_input_gradient(block);
    input.register_hook(
        [arrivals = std::weak_ptr(gradient_tracker_), block](const at::TensorBase&) {
          if (const auto here = arrivals.lock()) here->on_input_gradient(block);
        });
  }
  if (!watched) gradient_tracker_->expect_input_gradient(block);  // until the backward ends
}

void ShardedModel::post_forward(int block, const std::vector<at::Tensor>& outputs) {
  if (block == ParameterSpec::kRoot) return;
  bool backward_follows = false;
  for (const auto& output : outputs) {
    if (!output.requires_grad()) continue;
    backward_follows = true;
    output.register_hook([gathers = std::weak_ptr(gatherer_), block](const at::TensorBase&) {
      if (const auto here = gathers.lock()) here->pre_backward(block);
    });
  }
  gatherer_->post_forward(block, backward_follows);
}

at::Tensor ShardedModel::forward(const at::Tensor& input) {
  LS_CHECK(!children_.empty());  // the module is a Sequential
  auto x = input;
  for (const auto& stage : children_) {
    x = run_block(*stage.module, {{x}, [&stage](const std::vector<at::Tensor>& inputs) {
                                    return stage.forward(inputs.front());
                                  }});
  }
  return x;
}

// Skips evaluation, whose values have no gradients, and recomputation, which was checked before.
void ShardedModel::check_finite(const torch::nn::Module& module,
                                const std::vector<at::Tensor>& outputs) {
  if (in_backward() || !at::GradMode::is_enabled()) return;
  const int block = blocks_.index_of(module);
  if (block == ParameterSpec::kRoot) return;
  const int micro_step = phase_ == Phase::finished ? 1 : micro_steps_ + 1;
  for (const auto& output : outputs)
    non_finite_detector_.check({NonFiniteDetector::Kind::output, block, micro_step}, output);
}

Result<double> ShardedModel::read_at_step_end(const at::Tensor& number) {
  const auto checksums = TRY(order_checker_->wait_checksums());
  if (!checksums.defined()) return number.item<double>();
  const auto values = at::cat({number, checksums}).cpu();
  const auto* first = values.const_data_ptr<double>();
  auto compared = order_checker_->compare({first + 1, first + values.numel()});
  error_.note(compared);
  TRY(std::move(compared));
  return first[0];
}

// If no rank's own values are at fault, their sum is, or there is one rank only, whose gradients
// are not divided: then the values left in the slices identify the unit.
Result<NonFiniteValue> ShardedModel::find_first_non_finite() {
  const at::NoGradGuard no_grad;
  auto& world = mesh_.world();
  if (const auto found = TRY(non_finite_detector_.find_first(world)))
    return NonFiniteValue{
        found->rank, checked_value_name(layout_, blocks_, found->value),
        found->value.kind == NonFiniteDetector::Kind::gradients && mesh_.shard().size() > 1};
  NonFiniteDetector slices;
  for (const auto& unit : units_)
    if (unit.trainable())
      slices.check({NonFiniteDetector::Kind::gradients, unit.index(), micro_steps_},
                   unit.gradient_slice());
  const int owner = world.size() == 1 ? 0 : NonFiniteValue::kNoRank;
  if (const auto found = TRY(slices.find_first(world)))
    return NonFiniteValue{owner, checked_value_name(layout_, blocks_, found->value)};
  return NonFiniteValue{owner, "the gradients' norm"};
}

bool ShardedModel::recomputes(const torch::nn::Module& module) const {
  return policy_.recompute && !in_backward() && at::GradMode::is_enabled() &&
         blocks_.index_of(module) != ParameterSpec::kRoot;
}

// Its backward is over when that of the second forward is: no hooks on its inputs are needed.
at::Tensor ShardedModel::run_block(const torch::nn::Module& block, const BlockCall& call) {
  at::Tensor output;
  if (recomputes(block)) {
    output = recompute(block, call);
  } else {
    const int index = pre_forward(block, call.inputs);
    output = call.forward(call.inputs);
    post_forward(index, {output});
  }
  check_finite(block, {output});
  return output;
}

at::Tensor ShardedModel::recompute(const torch::nn::Module& module, const BlockCall& call) {
  const int block = blocks_.index_of(module);
  const bool gathered = gatherer_->has_divided_units(block);
  gatherer_->wait_parameter_sync(block);
  if (gathered) gatherer_->pre_forward(block, /*backward_follows=*/true);
  gradient_tracker_->expect_recompute(block);
  auto output = run_recomputed(call.inputs, is_trainable(module), device(),
                               {.forward = call.forward,
                                .begin =
                                    [gathers = std::weak_ptr(gatherer_), block] {
                                      const auto here = gathers.lock();
                                      if (here && here->has_divided_units(block))
                                        here->pre_backward(block);
                                    },
                                .end =
                                    [arrivals = std::weak_ptr(gradient_tracker_), block](bool ran) {
                                      if (const auto here = arrivals.lock())
                                        here->on_recompute_end(block, ran);
                                    }});
  if (gathered) gatherer_->post_forward(block, output.requires_grad());
  return output;
}

Result<void> ShardedModel::backward(const at::Tensor& loss, Sync sync) {
  TRY(begin_backward(sync));
  non_finite_detector_.check({NonFiniteDetector::Kind::loss, 0, micro_steps_}, loss);
  error_.note(run_backward(loss));
  return end_backward();
}

Result<void> ShardedModel::begin_backward(Sync sync, GradientAccumulation micro_steps) {
  TRY(status());
  if (phase_ == Phase::reducing)
    return Error{Code::invalid,
                 "backward after backward(loss, Sync::now): call finish_gradients() first"};
  const bool last = sync == Sync::now;
  const bool new_step = phase_ == Phase::finished;
  for (auto& unit : units_) unit.attach_gradients(new_step);
  if (new_step) micro_steps_ = 0;
  gatherer_->wait_parameter_sync();
  phase_ = last ? Phase::reducing : Phase::accumulating;
  // Without a shard group, micro-steps before the last only add to this rank's gradients.
  gradient_tracker_->begin(/*counting=*/last || mesh_.shard().size() > 1);
  ++micro_steps_;
  reducer_->begin(micro_steps_, last, micro_steps == GradientAccumulation::mean ? micro_steps_ : 1);
  return {};
}

Result<void> ShardedModel::end_backward() {
  const auto outcome = gradient_tracker_->end();
  gatherer_->release_all();
  reducer_->end();
  error_.note(outcome);
  return status();
}

Result<void> ShardedModel::regroup(Mesh mesh) {
  TRY(mesh.use_device(tensors_.device()));
  const auto& before = mesh_.shard();
  const auto& after = mesh.shard();
  if (after.size() != before.size() || after.rank() != before.rank())
    return Error{Code::invalid, format("rank {} of a shard group of {} cannot go on as rank {} of "
                                       "{}: its slices would be others",
                                       before.rank(), before.size(), after.rank(), after.size())};
  const bool divided_over_all = policy_.optimizer > policy_.gradients;
  if (divided_over_all && (mesh.world_size() != mesh_.world_size() ||
                           mesh.replicate().rank() != mesh_.replicate().rank()))
    return Error{Code::invalid,
                 format("the optimizer's state is divided over all {} ranks: none of them can "
                        "leave or change its place",
                        mesh_.world_size())};
  leave_groups(std::move(mesh));
  start_engine();
  return {};
}

void ShardedModel::fetch_gradients() {
  if (!policy_.offload) return;
  for (auto& unit : units_)
    if (unit.trainable()) unit.fetch_gradient();
  wait_for_kernels();
}

// Those of aborted transfers may still write.
void ShardedModel::wait_for_kernels() const {
  if (const auto here = device(); !here.is_cpu())
    c10::impl::VirtualGuardImpl(here.type()).synchronizeDevice(here.index());
}

// Includes the step in flight in them.
void ShardedModel::leave_groups(Mesh next) {
  mesh_.leave();  // then no transfer uses the buffers any more
  wait_for_kernels();
  for (auto& unit : units_) unit.drop_buffers();
  gradient_tracker_.reset();
  reducer_.reset();
  gatherer_.reset();
  mesh_ = std::move(next);
  error_ = {};
  phase_ = Phase::finished;
  non_finite_detector_.clear();
}

void ShardedModel::forget_gradients() {
  LS_CHECK(!in_backward());
  non_finite_detector_.clear();
  phase_ = Phase::finished;
}

Result<void> ShardedModel::run_backward(const at::Tensor& loss) {
  try {
    torch::autograd::backward({loss}, {});
  } catch (const std::exception& exception) {
    const std::string message = exception.what();
    return Error{Code::invalid, "backward: " + message.substr(0, message.find('\n'))};
  }
  return {};
}

Result<void> ShardedModel::finish_gradients() {
  if (phase_ != Phase::reducing)
    return Error{Code::invalid,
                 "finish_gradients without backward(loss, Sync::now): nothing is being reduced"};
  phase_ = Phase::finished;
  auto outcome = reducer_->finish();
  if (outcome) outcome = order_checker_->finish();
  error_.note(outcome);
  return outcome;
}

Result<void> ShardedModel::sync_parameters() {
  TRY(begin_parameter_sync());
  return wait_parameter_sync();
}

Result<void> ShardedModel::begin_parameter_sync() {
  gatherer_->begin_parameter_sync();
  return status();
}

Result<void> ShardedModel::wait_parameter_sync() {
  gatherer_->wait_parameter_sync();
  return status();
}

Result<void> ShardedModel::average_buffers() {
  const at::NoGradGuard no_grad;
  auto& world = mesh_.world();
  for (auto& [name, tensor] : tensors_.buffers) {
    if (tensor.is_floating_point()) tensor.div_(world.size());
    auto transfer = tensor.is_floating_point() ? world.all_reduce(tensor, ReduceOp::sum, name)
                                               : world.broadcast(tensor, 0, name);
    TRY(transfer.wait());
  }
  return {};
}

}  // namespace lockstep::train
