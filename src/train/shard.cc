#include "train/shard.h"

#include <algorithm>
#include <functional>
#include <unordered_set>
#include <utility>

#include <ATen/core/grad_mode.h>
#include <torch/csrc/autograd/autograd.h>
#include <torch/csrc/autograd/function_hook.h>
#include <torch/csrc/autograd/node.h>
#include <torch/csrc/autograd/variable.h>
#include <torch/nn/module.h>

#include "base/check.h"
#include "base/format.h"
#include "base/log.h"
#include "train/choose.h"
#include "train/device_memory.h"

namespace lockstep {
namespace {

namespace autograd = torch::autograd;

// Runs after autograd has added to a parameter's gradient.
class ReadyHook : public autograd::FunctionPostHook {
 public:
  explicit ReadyHook(std::function<void()> ready) : ready_(std::move(ready)) {}
  autograd::variable_list operator()(const autograd::variable_list& outputs,
                                     const autograd::variable_list&) override {
    ready_();
    return outputs;
  }

 private:
  std::function<void()> ready_;
};

bool has_hook(autograd::Node& accumulator) {
  return std::any_of(accumulator.post_hooks().begin(), accumulator.post_hooks().end(),
                     [](auto& hook) { return dynamic_cast<ReadyHook*>(hook.get()) != nullptr; });
}

ParameterSpec spec_of(const NamedTensor& parameter, const Blocks& blocks) {
  const auto& tensor = parameter.tensor;
  return {parameter.name, tensor.sizes().vec(), tensor.scalar_type(), blocks.owner_of(tensor)};
}

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

bool is_trainable(const torch::nn::Module& module) {
  const auto parameters = module.parameters();
  return std::any_of(parameters.begin(), parameters.end(),
                     [](const auto& each) { return each.requires_grad(); });
}

std::vector<at::Tensor> tensors_of(const std::vector<NamedTensor>& named) {
  std::vector<at::Tensor> tensors;
  for (const auto& [name, tensor] : named) tensors.push_back(tensor);
  return tensors;
}

Result<void> check_trainable(const NamedTensor& parameter, const at::Tensor& first) {
  const auto& [name, tensor] = parameter;
  if (!tensor.is_leaf() || tensor.layout() != at::kStrided)
    return Error{Code::invalid, format("parameter {} is not a dense leaf tensor", name)};
  if (tensor.device() != first.device())
    return Error{Code::invalid, format("parameter {} is on {}, others on {}: move the module to "
                                       "one device first",
                                       name, tensor.device().str(), first.device().str())};
  if (has_hook(*autograd::impl::grad_accumulator(tensor)))
    return Error{Code::already_exists,
                 format("parameter {} is sharded already: call shard once a module", name)};
  return {};
}

}  // namespace

// The accumulators are kept because a parameter holds its own only weakly.
struct ShardedModel::Hooks {
  struct Installed {
    c10::intrusive_ptr<autograd::Node> accumulator;
    std::uintptr_t key;
  };
  std::vector<Installed> installed;

  ~Hooks() {
    for (auto& [accumulator, key] : installed) accumulator->del_post_hook(key);
  }
};

Result<std::unique_ptr<ShardedModel>> shard(torch::nn::Module& module, Mesh mesh,
                                            const Policy& policy,
                                            const std::vector<torch::nn::Module*>& blocks,
                                            Values values) {
  TRY(check(policy, mesh.world_size()));
  auto parts = TRY(Blocks::create(module, blocks));
  std::unique_ptr<ShardedModel> model(new ShardedModel(std::move(mesh), std::move(parts)));
  model->stages_ = stages_of(module);
  TRY(model->take_tensors(module));
  TRY(model->decide(policy));
  TRY(model->build(values));
  return model;
}

ShardedModel::ShardedModel(Mesh mesh, Blocks blocks)
    : mesh_(std::move(mesh)), blocks_(std::move(blocks)) {}
ShardedModel::~ShardedModel() = default;

Result<void> ShardedModel::take_tensors(torch::nn::Module& module) {
  std::unordered_set<const at::TensorImpl*> seen;
  for (const auto& item : module.named_parameters()) {
    if (!seen.insert(item.value().unsafeGetTensorImpl()).second) continue;
    auto& list = item.value().requires_grad() ? parameters_ : frozen_;
    list.push_back({item.key(), item.value()});
  }
  for (const auto& item : module.named_buffers()) buffers_.push_back({item.key(), item.value()});
  // What a checkpoint holds of them is their elements in one row.
  for (auto* list : {&frozen_, &buffers_})
    for (auto& [name, tensor] : *list)
      if (!tensor.is_contiguous()) tensor.set_data(tensor.contiguous());
  if (parameters_.empty())
    return Error{Code::invalid, "the module has no parameter that requires a gradient"};
  for (const auto& parameter : parameters_)
    TRY(check_trainable(parameter, parameters_.front().tensor));
  return {};
}

Result<void> ShardedModel::decide(const Policy& asked) {
  policy_ = asked.automatic ? TRY(choose(asked)) : asked;
  TRY(check_blocks(policy_, blocks_, mesh_.world_size()));
  mesh_ = TRY(mesh_.cut(policy_.gradients));
  if (policy_.parameters > 1) divide_frozen();
  return {};
}

// All ranks choose by the memory of the one that has least.
Result<Policy> ShardedModel::choose(const Policy& asked) {
  const auto places = TRY(mesh_.places());
  const auto device = parameters_.front().tensor.device();
  const auto own = asked.memory > 0_B ? asked.memory : TRY(memory_of(device, places));
  const double least = TRY(mesh_.world().reduce(static_cast<double>(own.count()),
                                                Reduction::minimum, "the devices' memory"));
  const auto choice = TRY(choose_policy(
      asked, specs(frozen_), places, Bytes(static_cast<std::int64_t>(least)), blocks_.count() > 0));
  if (mesh_.rank() == 0) LS_LOG(info, "{}", choice.why);
  return choice.policy;
}

// What can lie in a unit's flat buffer goes with its block.
void ShardedModel::divide_frozen() {
  const auto device = parameters_.front().tensor.device();
  const auto first = std::stable_partition(frozen_.begin(), frozen_.end(), [&](const auto& each) {
    return blocks_.owner_of(each.tensor) == ParameterSpec::kRoot ||
           each.tensor.layout() != at::kStrided || each.tensor.device() != device;
  });
  divided_frozen_.assign(first, frozen_.end());
  frozen_.erase(first, frozen_.end());
}

std::vector<ParameterSpec> ShardedModel::specs(const std::vector<NamedTensor>& frozen) const {
  std::vector<ParameterSpec> all;
  for (const auto& parameter : parameters_) all.push_back(spec_of(parameter, blocks_));
  for (const auto& parameter : frozen) {
    all.push_back(spec_of(parameter, blocks_));
    all.back().trainable = false;
  }
  return all;
}

Result<void> ShardedModel::build_layout(Values values) {
  layout_ = Layout::build(specs(divided_frozen_), policy_, slice_of(policy_, mesh_));
  auto tensors = tensors_of(parameters_);
  for (const auto& [name, tensor] : divided_frozen_) tensors.push_back(tensor);
  homes_.resize(parameters_.size());
  members_.resize(static_cast<std::size_t>(blocks_.count()));
  open_.resize(members_.size());
  again_.resize(members_.size());
  for (std::size_t i = 0; i < layout_.units.size(); ++i) {
    units_.push_back(TRY(Unit::create(layout_, static_cast<int>(i), tensors, mesh_, values)));
    if (!layout_.units[i].trainable) continue;
    const auto& members = layout_.units[i].parameters;
    for (std::size_t member = 0; member < members.size(); ++member) {
      const auto parameter = static_cast<std::size_t>(members[member]);
      homes_[parameter] = {static_cast<int>(i), member};
      if (const int block = layout_.units[i].block; block != ParameterSpec::kRoot)
        members_[static_cast<std::size_t>(block)].push_back(parameter);
    }
  }
  return {};
}

Result<void> ShardedModel::build(Values values) {
  TRY(build_layout(values));
  if (values == Values::of_rank_0) TRY(equalize());
  start_engine();
  install_hooks();
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
  const auto device = parameters_.front().tensor.device();
  const auto bytes = [](std::size_t count) { return Bytes(static_cast<std::int64_t>(count)); };
  wholes_ = std::make_unique<Buffers>(mesh_.world(), bytes(whole), device);
  frozen_wholes_ = std::make_unique<Buffers>(mesh_.world(), bytes(frozen), device);
  roll_call_ = std::make_unique<RollCall>(mesh_, unit_names());
  gathers_ =
      std::make_shared<Gathers>(units_, layout_, blocks_.count(), policy_, mesh_,
                                Gathers::Pools{*wholes_, *frozen_wholes_}, *roll_call_, error_);
  reductions_ = std::make_unique<Reductions>(units_, mesh_, *wholes_, *roll_call_, looks_, error_);
}

std::vector<std::string> ShardedModel::unit_names() const {
  std::vector<std::string> names;
  for (const auto& unit : units_)
    names.push_back(format("unit {} ({})", unit.index(),
                           unit.divided() ? blocks_.name(unit.block()) : "of the root"));
  return names;
}

// Parameters' units have done it already.
Result<void> ShardedModel::equalize() {
  for (const auto* list : {&frozen_, &buffers_})
    for (const auto& [name, tensor] : *list)
      TRY(mesh_.world().broadcast(tensor.detach(), 0, name).wait());
  return {};
}

std::vector<OwnedTensor> ShardedModel::state() const {
  std::vector<OwnedTensor> state;
  for (std::size_t i = 0; i < layout_.parameters.size(); ++i) {
    const auto& place = layout_.parameters[i];
    const auto& master = units_[static_cast<std::size_t>(place.unit)].master();
    state.push_back({"parameter/" + place.spec.name, place.spec.shape, place.owned,
                     Unit::owned(master, layout_, static_cast<int>(i))});
  }
  for (const auto& [name, tensor] : frozen_)
    state.push_back(whole("parameter/" + name, tensor, /*copies_equal=*/true));
  for (const auto& [name, tensor] : buffers_)
    state.push_back(whole("buffer/" + name, tensor, /*copies_equal=*/false));
  return state;
}

void ShardedModel::install_hooks() {
  hooks_ = std::make_unique<Hooks>();
  ready_.resize(parameters_.size());
  for (std::size_t i = 0; i < parameters_.size(); ++i) {
    auto accumulator = autograd::impl::grad_accumulator(parameters_[i].tensor);
    auto hook = std::make_unique<ReadyHook>([this, i] { gradient_arrived(i); });
    const auto key = accumulator->add_post_hook(std::move(hook));
    hooks_->installed.push_back({std::move(accumulator), key});
  }
}

int ShardedModel::enter(const torch::nn::Module& module, const std::vector<at::Tensor>& inputs) {
  const int block = blocks_.index_of(module);
  if (block == ParameterSpec::kRoot) return block;
  gathers_->settle(block);
  if (!gathers_->gathers(block)) return ParameterSpec::kRoot;
  if (in_backward_) {  // recomputed: its backward follows at once, and releases it
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
  auto& open = open_[static_cast<std::size_t>(block)];
  const int before = open;
  for (const auto& input : inputs) {
    if (!input.requires_grad()) continue;
    ++open;
    input.register_hook([this, alive = std::weak_ptr(gathers_), block](const at::TensorBase&) {
      if (alive.lock() && --open_[static_cast<std::size_t>(block)] == 0) close(block);
    });
  }
  if (open == before) ++open;  // for ever
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
  if (in_backward_ || !at::GradMode::is_enabled()) return;
  const int block = blocks_.index_of(module);
  if (block == ParameterSpec::kRoot) return;
  const int micro_step = phase_ == Phase::finished ? 1 : micro_steps_ + 1;
  for (const auto& output : outputs)
    looks_.look({FiniteLooks::Kind::output, block, micro_step}, output);
}

std::string ShardedModel::unit_words(std::size_t unit) const {
  const auto& place = layout_.units[unit];
  if (place.block != ParameterSpec::kRoot)
    return format("unit {} ({})", unit, blocks_.name(place.block));
  const auto name = [&](int parameter) -> const std::string& {
    return layout_.parameters[static_cast<std::size_t>(parameter)].spec.name;
  };
  const auto& first = name(place.parameters.front());
  const auto& last = name(place.parameters.back());
  return format("unit {} ({})", unit, first == last ? first : format("{} to {}", first, last));
}

std::string ShardedModel::words_of(const FiniteLooks::Place& place) const {
  const auto index = static_cast<std::size_t>(place.index);
  const auto when = format("in micro-step {}", place.micro_step);
  switch (place.kind) {
    case FiniteLooks::Kind::output:
      return format("the output of {} {}", blocks_.name(place.index), when);
    case FiniteLooks::Kind::loss:
      return format("the loss {}", when);
    case FiniteLooks::Kind::gradients:
      break;
  }
  return format("the gradients of {}", unit_words(index));
}

// Where no rank's own values were at fault, their sum is, or there is one rank only, whose
// gradients nobody divides: then what is left in the slices tells the unit.
Result<NotFinite> ShardedModel::first_not_finite() {
  const at::NoGradGuard no_grad;
  auto& world = mesh_.world();
  if (const auto found = TRY(looks_.first(world)))
    return NotFinite{found->rank, words_of(found->place),
                     found->place.kind == FiniteLooks::Kind::gradients && mesh_.shard().size() > 1};
  FiniteLooks slices;
  for (const auto& unit : units_)
    if (unit.trainable())
      slices.look({FiniteLooks::Kind::gradients, unit.index(), micro_steps_},
                  unit.gradient_slice());
  const int owner = world.size() == 1 ? 0 : NotFinite::kNobody;
  if (const auto found = TRY(slices.first(world)))
    return NotFinite{owner, format("the gradients of {}",
                                   unit_words(static_cast<std::size_t>(found->place.index)))};
  return NotFinite{owner, "the gradients' norm"};
}

bool ShardedModel::recomputes(const torch::nn::Module& module) const {
  return policy_.recompute && !in_backward_ && at::GradMode::is_enabled() &&
         blocks_.index_of(module) != ParameterSpec::kRoot;
}

// Its backward is over when that of the second forward is: no need to watch its inputs.
at::Tensor ShardedModel::recompute(const torch::nn::Module& module,
                                   const std::vector<at::Tensor>& inputs, BlockForward forward) {
  const int block = blocks_.index_of(module);
  const auto index = static_cast<std::size_t>(block);
  const bool gathered = gathers_->gathers(block);
  gathers_->settle(block);
  if (gathered) gathers_->enter(block, /*backward_follows=*/true);
  ++again_[index];
  const auto alive = std::weak_ptr(gathers_);
  auto output = recomputed(inputs, is_trainable(module),
                           {.forward = std::move(forward),
                            .begin =
                                [alive, block] {
                                  const auto here = alive.lock();
                                  if (here && here->gathers(block)) here->enter_backward(block);
                                },
                            .end =
                                [this, alive, block, index](bool ran) {
                                  if (alive.lock() && --again_[index] == 0 && ran) close(block);
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
  counting_ = last || mesh_.shard().size() > 1;
  in_backward_ = true;
  std::fill(ready_.begin(), ready_.end(), false);
  arrived_twice_.clear();
  ++micro_steps_;
  reductions_->begin(micro_steps_, last, micro_steps == MicroSteps::mean ? micro_steps_ : 1);
  return {};
}

Result<void> ShardedModel::end_backward() {
  // What backward did not reach keeps the gradient it had: zero, or that of earlier micro-steps.
  for (std::size_t i = 0; i < ready_.size(); ++i)
    if (!ready_[i]) gradient_ready(i);
  counting_ = false;
  in_backward_ = false;
  std::fill(open_.begin(), open_.end(), 0);
  gathers_->end_pass();
  reductions_->end();
  if (!arrived_twice_.empty())
    error_.note(Error{Code::invalid, format("the gradient of {} arrived twice in one backward: is "
                                            "its layer recomputed by a nested backward?",
                                            arrived_twice_)});
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
  mesh_.leave();  // then no transfer uses the buffers any more
  for (auto& unit : units_) unit.drop_buffers();
  reductions_.reset();
  gathers_.reset();
  mesh_ = std::move(mesh);
  error_ = {};
  phase_ = Phase::finished;
  looks_.forget();
  in_backward_ = counting_ = false;
  std::fill(open_.begin(), open_.end(), 0);
  std::fill(again_.begin(), again_.end(), 0);
  start_engine();
  return {};
}

void ShardedModel::forget_gradients() {
  LS_CHECK(!in_backward_);
  looks_.forget();
  phase_ = Phase::finished;
}

Result<void> ShardedModel::run_backward(const at::Tensor& loss) {
  try {
    autograd::backward({loss}, {});
  } catch (const std::exception& exception) {
    const std::string message = exception.what();
    return Error{Code::invalid, "backward: " + message.substr(0, message.find('\n'))};
  }
  return {};
}

// Called by autograd on the thread that runs backward. Where blocks are recomputed, a gradient
// comes once for each of them that has the parameter, and for each time that it ran: what may come
// again waits for the last, or for the end.
void ShardedModel::gradient_arrived(std::size_t parameter) {
  if (policy_.recompute) {
    const auto& tensor = parameters_[parameter].tensor;
    const int block = blocks_.owner_of(tensor);
    if (block == ParameterSpec::kRoot ? blocks_.of_several(tensor)
                                      : again_[static_cast<std::size_t>(block)] > 1)
      return;
  }
  gradient_ready(parameter);
}

void ShardedModel::gradient_ready(std::size_t parameter) {
  if (!in_backward_) return;
  if (ready_[parameter]) {
    if (counting_) arrived_twice_ = parameters_[parameter].name;
    return;
  }
  ready_[parameter] = true;
  auto& unit = units_[static_cast<std::size_t>(homes_[parameter].unit)];
  reductions_->arrived(unit, homes_[parameter].member);
  if (unit.complete()) gathers_->release(unit);
}

void ShardedModel::close(int block) {
  for (auto parameter : members_[static_cast<std::size_t>(block)])
    if (!ready_[parameter]) gradient_ready(parameter);
  gathers_->release(block);
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
  for (auto& [name, tensor] : buffers_) {
    if (tensor.is_floating_point()) tensor.div_(world.size());
    auto transfer = tensor.is_floating_point() ? world.reduce(tensor, Reduction::sum, name)
                                               : world.broadcast(tensor, 0, name);
    TRY(transfer.wait());
  }
  return {};
}

}  // namespace lockstep
