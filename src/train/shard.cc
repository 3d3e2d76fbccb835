#include "train/shard.h"

#include <algorithm>
#include <utility>

#include <ATen/core/grad_mode.h>
#include <torch/csrc/autograd/autograd.h>
#include <torch/nn/module.h>

#include "base/check.h"
#include "base/format.h"
#include "base/log.h"
#include "train/choose.h"
#include "train/device_memory.h"
#include "train/names.h"

namespace lockstep {
namespace {

// Of each unit there are as many slices as ranks over which the optimizer is divided, those of a
// shard side by side.
SliceNumber slice_of(const Policy& policy, const Mesh& mesh) {
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
                                            Values values) {
  TRY(check(policy, mesh.world_size()));
  auto parts = TRY(Blocks::create(module, blocks));
  std::unique_ptr<ShardedModel> model(new ShardedModel(std::move(mesh), std::move(parts)));
  model->stages_ = stages_of(module);
  model->tensors_ = TRY(ModuleTensors::of(module));
  TRY(model->decide(policy));
  TRY(model->build(values));
  return model;
}

ShardedModel::ShardedModel(Mesh mesh, Blocks blocks)
    : mesh_(std::move(mesh)), blocks_(std::move(blocks)) {}
ShardedModel::~ShardedModel() = default;

Result<void> ShardedModel::decide(const Policy& asked) {
  if (!asked.automatic)
    policy_ = asked;
  else if (mesh_.is_cut_by_number())
    policy_ = in_groups(asked, mesh_.shard().size());
  else
    policy_ = TRY(choose(asked));
  TRY(check_blocks(policy_, blocks_, mesh_.world_size()));
  mesh_ = TRY(mesh_.cut(policy_.gradients));
  if (policy_.parameters > 1) tensors_.divide_frozen(blocks_);
  return {};
}

// All ranks choose by the memory of the one that has least.
Result<Policy> ShardedModel::choose(const Policy& asked) {
  const auto places = TRY(mesh_.places());
  const auto own = asked.memory > 0_B ? asked.memory : TRY(memory_of(tensors_.device(), places));
  const double least = TRY(mesh_.world().reduce(static_cast<double>(own.count()),
                                                Reduction::minimum, "the devices' memory"));
  const auto choice =
      TRY(choose_policy(asked, tensors_.specs(blocks_, tensors_.frozen), places,
                        Bytes(static_cast<std::int64_t>(least)), blocks_.count() > 0));
  if (mesh_.rank() == 0) LS_LOG(info, "{}", choice.why);
  return choice.policy;
}

Result<void> ShardedModel::build_layout(Values values) {
  layout_ = Layout::build(tensors_.specs(blocks_, tensors_.divided_frozen), policy_,
                          slice_of(policy_, mesh_));
  auto tensors = tensors_of(tensors_.trainable);
  for (const auto& [name, tensor] : tensors_.divided_frozen) tensors.push_back(tensor);
  for (std::size_t i = 0; i < layout_.units.size(); ++i)
    units_.push_back(TRY(Unit::create(layout_, static_cast<int>(i), tensors, mesh_, values)));
  return {};
}

Result<void> ShardedModel::build(Values values) {
  TRY(build_layout(values));
  if (values == Values::of_rank_0) TRY(equalize());
  start_engine();
  for (std::size_t i = 0; i < tensors_.trainable.size(); ++i)
    hooks_.add(tensors_.trainable[i].tensor, [this, i] { arrivals_->arrived(i); });
  return {};
}

// What moves parameters and gradients between the ranks of the mesh.
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
  wholes_ = std::make_unique<Buffers>(mesh_.world(), bytes(whole), device);
  frozen_wholes_ = std::make_unique<Buffers>(mesh_.world(), bytes(frozen), device);
  roll_call_ = std::make_unique<RollCall>(mesh_, unit_names(layout_, blocks_));
  gathers_ =
      std::make_shared<Gathers>(units_, layout_, blocks_.count(), policy_, mesh_,
                                Gathers::Pools{*wholes_, *frozen_wholes_}, *roll_call_, error_);
  reductions_ = std::make_unique<Reductions>(units_, mesh_, *wholes_, *roll_call_, looks_, error_);
  arrivals_ =
      std::make_shared<Arrivals>(units_, layout_, blocks_, tensors_.trainable, policy_.recompute,
                                 Arrivals::Sinks{*gathers_, *reductions_});
}

// Parameters' units have done it already.
Result<void> ShardedModel::equalize() {
  for (const auto* list : {&tensors_.frozen, &tensors_.buffers})
    for (const auto& [name, tensor] : *list)
      TRY(mesh_.world().broadcast(tensor.detach(), 0, name).wait());
  return {};
}

std::vector<OwnedTensor> ShardedModel::state() const {
  readers_->await();
  std::vector<OwnedTensor> state;
  for (std::size_t i = 0; i < layout_.parameters.size(); ++i) {
    const auto& place = layout_.parameters[i];
    const auto& unit = units_[static_cast<std::size_t>(place.unit)];
    // What is whole between steps the program may change at any time.
    const bool steady = unit.divided() || !unit.master().is_same(unit.slice());
    state.push_back({"parameter/" + place.spec.name, place.spec.shape, place.owned,
                     Unit::owned(unit.master(), layout_, static_cast<int>(i)),
                     /*copies_equal=*/true, steady});
  }
  for (const auto& [name, tensor] : tensors_.frozen)
    state.push_back(whole("parameter/" + name, tensor, /*copies_equal=*/true));
  for (const auto& [name, tensor] : tensors_.buffers)
    state.push_back(whole("buffer/" + name, tensor, /*copies_equal=*/false));
  return state;
}

int ShardedModel::enter(const torch::nn::Module& module, const std::vector<at::Tensor>& inputs) {
  const int block = blocks_.index_of(module);
  if (block == ParameterSpec::kRoot) return block;
  gathers_->settle(block);
  if (!gathers_->gathers(block)) return ParameterSpec::kRoot;
  if (in_backward()) {  // recomputed: its backward follows at once, and releases it
    gathers_->enter_backward(block);
    return ParameterSpec::kRoot;
  }
  gathers_->enter(block, at::GradMode::is_enabled());
  if (at::GradMode::is_enabled()) watch_end_of_backward(block, inputs);
  return block;
}

// When the gradients of a block's inputs are there, its backward is over, and a parameter without a
// gradient will get none: so it need not hold its unit up until all of backward is over. Where no
// input has a gradient it does.
void ShardedModel::watch_end_of_backward(int block, const std::vector<at::Tensor>& inputs) {
  bool watched = false;
  for (const auto& input : inputs) {
    if (!input.requires_grad()) continue;
    watched = true;
    arrivals_->open(block);
    input.register_hook([arrivals = std::weak_ptr(arrivals_), block](const at::TensorBase&) {
      if (const auto here = arrivals.lock()) here->close(block);
    });
  }
  if (!watched) arrivals_->open(block);  // for ever
}

void ShardedModel::leave(int block, const std::vector<at::Tensor>& outputs) {
  if (block == ParameterSpec::kRoot) return;
  bool backward_follows = false;
  for (const auto& output : outputs) {
    if (!output.requires_grad()) continue;
    backward_follows = true;
    output.register_hook([gathers = std::weak_ptr(gathers_), block](const at::TensorBase&) {
      if (const auto here = gathers.lock()) here->enter_backward(block);
    });
  }
  gathers_->leave(block, backward_follows);
}

at::Tensor ShardedModel::forward(const at::Tensor& input) {
  LS_CHECK(!stages_.empty());  // the module is a Sequential
  auto x = input;
  for (const auto& stage : stages_) {
    if (recomputes(*stage.module)) {
      x = recompute(*stage.module, {x}, [&stage](const std::vector<at::Tensor>& given) {
        return stage.forward(given.front());
      });
    } else {
      const int block = enter(*stage.module, {x});
      x = stage.forward(x);
      leave(block, {x});
    }
    look(*stage.module, {x});
  }
  return x;
}

// An evaluation's are nobody's gradients; and what is recomputed was seen before.
void ShardedModel::look(const torch::nn::Module& module, const std::vector<at::Tensor>& outputs) {
  if (in_backward() || !at::GradMode::is_enabled()) return;
  const int block = blocks_.index_of(module);
  if (block == ParameterSpec::kRoot) return;
  const int micro_step = phase_ == Phase::finished ? 1 : micro_steps_ + 1;
  for (const auto& output : outputs)
    looks_.look({FiniteLooks::Kind::output, block, micro_step}, output);
}

// Where no rank's own values were at fault, their sum is, or there is one rank only, whose
// gradients nobody divides: then what is left in the slices tells the unit.
Result<NotFinite> ShardedModel::first_not_finite() {
  const at::NoGradGuard no_grad;
  auto& world = mesh_.world();
  if (const auto found = TRY(looks_.first(world)))
    return NotFinite{found->rank, place_name(layout_, blocks_, found->place),
                     found->place.kind == FiniteLooks::Kind::gradients && mesh_.shard().size() > 1};
  FiniteLooks slices;
  for (const auto& unit : units_)
    if (unit.trainable())
      slices.look({FiniteLooks::Kind::gradients, unit.index(), micro_steps_},
                  unit.gradient_slice());
  const int owner = world.size() == 1 ? 0 : NotFinite::kNobody;
  if (const auto found = TRY(slices.first(world)))
    return NotFinite{owner, place_name(layout_, blocks_, found->place)};
  return NotFinite{owner, "the gradients' norm"};
}

bool ShardedModel::recomputes(const torch::nn::Module& module) const {
  return policy_.recompute && !in_backward() && at::GradMode::is_enabled() &&
         blocks_.index_of(module) != ParameterSpec::kRoot;
}

// Its backward is over when that of the second forward is: no need to watch its inputs.
at::Tensor ShardedModel::recompute(const torch::nn::Module& module,
                                   const std::vector<at::Tensor>& inputs, BlockForward forward) {
  const int block = blocks_.index_of(module);
  const bool gathered = gathers_->gathers(block);
  gathers_->settle(block);
  if (gathered) gathers_->enter(block, /*backward_follows=*/true);
  arrivals_->open_again(block);
  auto output = recomputed(inputs, is_trainable(module),
                           {.forward = std::move(forward),
                            .begin =
                                [gathers = std::weak_ptr(gathers_), block] {
                                  const auto here = gathers.lock();
                                  if (here && here->gathers(block)) here->enter_backward(block);
                                },
                            .end =
                                [arrivals = std::weak_ptr(arrivals_), block](bool ran) {
                                  if (const auto here = arrivals.lock())
                                    here->close_again(block, ran);
                                }});
  if (gathered) gathers_->leave(block, output.requires_grad());
  return output;
}

Result<void> ShardedModel::backward(const at::Tensor& loss, Sync sync) {
  TRY(begin_backward(sync));
  looks_.look({FiniteLooks::Kind::loss, 0, micro_steps_}, loss);
  error_.note(run_backward(loss));
  return end_backward();
}

Result<void> ShardedModel::begin_backward(Sync sync, MicroSteps micro_steps) {
  TRY(status());
  if (phase_ == Phase::reducing)
    return Error{Code::invalid,
                 "backward after backward(loss, Sync::now): call finish_gradients() first"};
  const bool last = sync == Sync::now;
  const bool anew = phase_ == Phase::finished;
  for (auto& unit : units_) unit.attach_gradients(anew);
  if (anew) micro_steps_ = 0;
  gathers_->settle();
  phase_ = last ? Phase::reducing : Phase::accumulating;
  // Without a shard group, micro-steps before the last only add to this rank's gradients.
  arrivals_->begin(/*counting=*/last || mesh_.shard().size() > 1);
  ++micro_steps_;
  reductions_->begin(micro_steps_, last, micro_steps == MicroSteps::mean ? micro_steps_ : 1);
  return {};
}

Result<void> ShardedModel::end_backward() {
  const auto outcome = arrivals_->end();
  gathers_->end_pass();
  reductions_->end();
  error_.note(outcome);
  return status();
}

Result<void> ShardedModel::regroup(Mesh mesh) {
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

// With the step that was under way in them.
void ShardedModel::leave_groups(Mesh next) {
  mesh_.leave();  // then no transfer uses the buffers any more
  for (auto& unit : units_) unit.drop_buffers();
  arrivals_.reset();
  reductions_.reset();
  gathers_.reset();
  mesh_ = std::move(next);
  error_ = {};
  phase_ = Phase::finished;
  looks_.forget();
}

void ShardedModel::forget_gradients() {
  LS_CHECK(!in_backward());
  looks_.forget();
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
  auto outcome = reductions_->finish();
  if (outcome) outcome = roll_call_->finish();
  error_.note(outcome);
  return outcome;
}

Result<void> ShardedModel::spread() {
  TRY(begin_spread());
  return settle();
}

Result<void> ShardedModel::begin_spread() {
  gathers_->begin_spread();
  return status();
}

Result<void> ShardedModel::settle() {
  gathers_->settle();
  return status();
}

Result<void> ShardedModel::average_buffers() {
  const at::NoGradGuard no_grad;
  auto& world = mesh_.world();
  for (auto& [name, tensor] : tensors_.buffers) {
    if (tensor.is_floating_point()) tensor.div_(world.size());
    auto transfer = tensor.is_floating_point() ? world.reduce(tensor, Reduction::sum, name)
                                               : world.broadcast(tensor, 0, name);
    TRY(transfer.wait());
  }
  return {};
}

}  // namespace lockstep
