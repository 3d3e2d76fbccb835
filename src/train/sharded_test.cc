// What every policy does alike: the same numbers as one process, with the bytes and the memory that
// its three group sizes say.
#include <algorithm>
#include <map>
#include <memory>

#include <ATen/Context.h>
#include <ATen/Parallel.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/dropout.h>
#include <ATen/ops/linear.h>
#include <ATen/ops/mse_loss.h>
#include <ATen/ops/rand.h>
#include <ATen/ops/sin.h>
#include <ATen/ops/tanh.h>
#include <gtest/gtest.h>
#include <torch/nn/module.h>
#include <torch/nn/modules/container/sequential.h>

#include "base/format.h"
#include "train/optimizer.h"
#include "train/ranks_for_test.h"
#include "train/shard.h"

namespace lockstep::sharded_test {
namespace {

using ranks_for_test::as_ranks;
using ranks_for_test::Call;
using ranks_for_test::Rank;

constexpr int kRanks = 4;
constexpr int kBatch = 12;

// Numbers that look random and are the same everywhere.
at::Tensor wave(at::IntArrayRef shape, double phase) {
  const auto count = c10::multiply_integers(shape);
  return at::sin(at::arange(count, at::kDouble) * 1.7 + phase).view(shape);
}

// Odd sizes, so that nothing divides; one parameter that is of no use, one that needs no gradient.
class Layer : public torch::nn::Module {
 public:
  explicit Layer(double phase) {
    weight = register_parameter("weight", wave({7, 7}, phase) * 0.5);
    bias = register_parameter("bias", wave({7}, phase + 0.1) * 0.5);
    frozen = register_parameter("frozen", wave({7}, phase + 0.2), /*requires_grad=*/false);
    unused = register_parameter("unused", wave({3}, phase + 0.3));
  }
  at::Tensor forward(const at::Tensor& x) {
    auto y = at::tanh(at::linear(x, weight, bias) + frozen);
    return uses_all ? y + unused.sum() : y;
  }

  at::Tensor weight, bias, frozen, unused;
  bool uses_all = false;
};

// Of three numbers, so that most ranks own none of it; and of one that another has too.
class Scale : public torch::nn::Module {
 public:
  explicit Scale(const at::Tensor& shared) {
    scale = register_parameter("scale", wave({3}, 0.7));
    shared_ = register_parameter("shared", shared);
  }
  at::Tensor forward(const at::Tensor& x) { return x * (1 + scale.sum() * shared_); }

  at::Tensor scale;

 private:
  at::Tensor shared_;
};

class Net : public torch::nn::Module {
 public:
  Net() {
    first = register_parameter("first", wave({7, 5}, 0.1) * 0.5);
    const auto shared = wave({7}, 0.2).requires_grad_();
    for (int i = 0; i < 3; ++i) {
      layers.push_back(register_module(format("layer{}", i), std::make_shared<Layer>(0.3 + i)));
      scales.push_back(register_module(format("scale{}", i), std::make_shared<Scale>(shared)));
    }
    last = register_parameter("last", wave({3, 7}, 0.6) * 0.5);
  }
  std::vector<torch::nn::Module*> blocks() const {
    std::vector<torch::nn::Module*> all;
    for (std::size_t i = 0; i < layers.size(); ++i) {
      all.push_back(layers[i].get());
      all.push_back(scales[i].get());
    }
    return all;
  }
  at::Tensor loss(ShardedModel& model, const at::Tensor& x, const at::Tensor& y) const {
    auto hidden = at::tanh(at::linear(x, first));
    for (std::size_t i = 0; i < layers.size(); ++i)
      hidden = model(*scales[i], model(*layers[i], hidden));
    return at::mse_loss(at::linear(hidden, last), y);
  }

  at::Tensor first, last;
  std::vector<std::shared_ptr<Layer>> layers;
  std::vector<std::shared_ptr<Scale>> scales;
};

struct Share {
  at::Tensor x, y;
};

Share share_of(int step, Mesh& mesh) {
  const auto size = kBatch / mesh.world_size();
  const auto from = mesh.rank() * size;
  return {wave({kBatch, 5}, step).narrow(0, from, size),
          wave({kBatch, 3}, step + 0.5).narrow(0, from, size)};
}

Result<Policy> policy_of(const std::string& name, int world_size) {
  auto policy = TRY(parse_policy(name, world_size));
  policy.bucket = 512_B;  // several units of what is whole, although it is small
  policy.first_bucket = 128_B;
  return policy;
}

// A model with its optimizer, one step at a time.
class Training {
 public:
  static Result<std::unique_ptr<Training>> start(Mesh mesh, const std::string& policy,
                                                 const OptimizerOptions& options,
                                                 at::ScalarType type = at::kDouble) {
    auto training = std::make_unique<Training>();
    auto& net = training->net;
    net.to(type);
    training->type = type;
    const auto parsed = TRY(policy_of(policy, mesh.world_size()));
    training->model = TRY(shard(net, std::move(mesh), parsed, net.blocks()));
    training->optimizer = TRY(Optimizer::create(*training->model, options));
    return training;
  }

  // The gradient's norm.
  Result<double> step(int number, int parts) {
    const auto share = share_of(number, model->mesh());
    const auto x = share.x.to(type);
    const auto y = share.y.to(type);
    const auto size = x.size(0) / parts;
    for (int part = 0; part < parts; ++part) {
      const auto loss =
          net.loss(*model, x.narrow(0, part * size, size), y.narrow(0, part * size, size));
      TRY(model->backward(loss, part + 1 == parts ? Sync::now : Sync::later));
    }
    TRY(model->finish_gradients());
    return TRY(optimizer->step()).gradient_norm;
  }

  std::vector<OwnedTensor> state() const {
    auto state = model->state();
    for (auto& tensor : optimizer->state()) state.push_back(std::move(tensor));
    return state;
  }

  Net net;
  at::ScalarType type = at::kDouble;
  std::unique_ptr<ShardedModel> model;
  std::unique_ptr<Optimizer> optimizer;
};

using State = std::map<std::string, at::Tensor>;  // flat

// What one process alone comes to.
State alone(const OptimizerOptions& options, int steps) {
  auto training = Training::start(Mesh::single(), "ddp", options).value();
  for (int step = 0; step < steps; ++step) EXPECT_TRUE(training->step(step, 1));
  State state;
  for (const auto& [name, shape, owned, tensor, equal] : training->state())
    state[name] = tensor.clone();
  return state;
}

// What a parameter is before the first step.
at::Tensor start_of(const std::string& name) {
  static const auto training = Training::start(Mesh::single(), "ddp", {}).value();
  for (const auto& one : training->model->state())
    if (one.name == name) return one.tensor;
  return {};
}

double difference(const at::Tensor& a, const at::Tensor& b) {
  return a.numel() == 0 ? 0 : (a - b).abs().max().item<double>();
}

bool is_divided(const std::string& name) { return name.find("frozen") == std::string::npos; }

std::int64_t elements_of(const State& state) {
  std::int64_t elements = 0;
  for (const auto& [name, tensor] : state) elements += is_divided(name) ? tensor.numel() : 0;
  return elements;
}

// The largest difference of what this rank holds, and how many elements that is of those that
// policies divide.
std::pair<double, std::int64_t> compare(const Training& training, const State& expected) {
  double most = 0;
  std::int64_t held = 0;
  for (const auto& [name, shape, owned, tensor, equal] : training.state()) {
    const auto& whole = expected.at(name);
    EXPECT_EQ(tensor.numel(), owned.size()) << name;
    EXPECT_EQ(c10::multiply_integers(shape), whole.numel()) << name;
    most = std::max(most, difference(tensor, whole.narrow(0, owned.begin, owned.size())));
    if (is_divided(name)) held += owned.size();
  }
  return {most, held};
}

const std::vector<std::string> kPolicies = {"ddp",        "zero1",         "zero2",
                                            "zero3",      "mics:2",        "mics:2+opt",
                                            "zero3+keep", "ddp+recompute", "mics:2+recompute"};

struct Recipe {
  const char* name;
  OptimizerOptions options;
  int parts;
};

class Parity : public ::testing::TestWithParam<Recipe> {};

TEST_P(Parity, FourRanksEqualOneProcessInEveryPolicy) {
  at::set_num_threads(1);
  constexpr int steps = 3;
  const auto& [recipe, options, parts] = GetParam();
  const auto expected = alone(options, steps);
  ASSERT_GT(difference(expected.at("parameter/layer1.weight"),
                       alone(options, 1).at("parameter/layer1.weight")),
            1e-4);
  const auto failures = as_ranks(kRanks, [&](Rank& self) -> Result<void> {
    for (const auto& policy : kPolicies) {
      auto training = TRY(Training::start(self.mesh, policy, options));
      for (int step = 0; step < steps; ++step) TRY(training->step(step, parts));
      const auto [most, held] = compare(*training, expected);
      EXPECT_LT(most, 1e-10) << policy << ", rank " << self.rank;
      const double all = TRY(self.mesh.world().reduce(static_cast<double>(held), Reduction::sum,
                                                      "what the ranks hold"));
      const int copies = kRanks / TRY(policy_of(policy, kRanks)).optimizer;
      EXPECT_EQ(all, static_cast<double>(copies * elements_of(expected))) << policy;
    }
    return {};
  });
  EXPECT_EQ(failures, "");
}

INSTANTIATE_TEST_SUITE_P(
    All, Parity,
    ::testing::Values(Recipe{"sgd", {.method = Sgd{.momentum = 0.9}, .learning_rate = 0.05}, 3},
                      Recipe{"adamw", {.method = AdamW{}, .learning_rate = 0.01}, 1},
                      Recipe{"clip", {.method = Sgd{}, .learning_rate = 0.2, .clip_norm = 0.1}, 1}),
    [](const auto& one) { return std::string(one.param.name); });

TEST(Optimizer, TheNormCountsEachElementOnceInEveryPolicy) {
  const OptimizerOptions options{.method = Sgd{}, .learning_rate = 0.1};
  const double expected =
      Training::start(Mesh::single(), "ddp", options).value()->step(0, 1).value();
  const auto failures = as_ranks(kRanks, [&](Rank& self) -> Result<void> {
    for (const auto& policy : kPolicies) {
      auto training = TRY(Training::start(self.mesh, policy, options));
      EXPECT_NEAR(TRY(training->step(0, 1)), expected, 1e-12) << policy;
    }
    return {};
  });
  EXPECT_EQ(failures, "");
}

// A step moves parameters by less than bfloat16 can tell: only masters keep that.
TEST(Optimizer, StepsTooSmallForSixteenBitsAddUpInTheMasters) {
  const OptimizerOptions options{.method = Sgd{}, .learning_rate = 1e-4};
  const auto exact = alone(options, 8);
  const auto failures = as_ranks(kRanks, [&](Rank& self) -> Result<void> {
    for (const auto& policy : {"ddp", "zero2", "mics:2+opt"}) {
      auto training = TRY(Training::start(self.mesh, policy, options, at::kBFloat16));
      const auto begin = training->state();
      std::vector<at::Tensor> before;
      for (const auto& one : begin) before.push_back(one.tensor.clone());
      for (int step = 0; step < 8; ++step) TRY(training->step(step, 3));
      for (std::size_t i = 0; i < begin.size(); ++i) {
        const auto& [name, shape, owned, tensor, equal] = begin[i];
        if (!is_divided(name)) continue;
        EXPECT_EQ(tensor.scalar_type(), at::kFloat);
        const auto moved = (tensor - before[i]).to(at::kDouble);
        const auto whole = exact.at(name) - start_of(name);
        EXPECT_LT(difference(moved, whole.narrow(0, owned.begin, owned.size())),
                  0.05 * whole.abs().max().item<double>() + 1e-5)
            << policy << " " << name;
      }
    }
    return {};
  });
  EXPECT_EQ(failures, "");
}

std::string label_of(const Call& call) {
  const auto* text = reinterpret_cast<const char*>(call.label.data());
  return {text, ::strnlen(text, FlightLabel::kBytes)};
}

// The bytes that this rank sent for parameters and gradients, by the first word of the group's
// name.
std::map<std::string, std::int64_t> bytes_by_group(const std::vector<Call>& calls) {
  std::map<std::string, std::int64_t> bytes;
  for (const auto& call : calls)
    if (label_of(call).find(" of unit ") != std::string::npos)
      bytes[call.group.substr(0, call.group.find(' '))] += call.bytes;
  return bytes;
}

std::int64_t bytes_of(const ShardedModel& model, bool divided) {
  std::int64_t bytes = 0;
  for (const auto& unit : model.units())
    if (unit.divided() == divided && unit.trainable())
      bytes += unit.whole().numel() * static_cast<std::int64_t>(sizeof(double));
  return bytes;
}

std::size_t trainable_units(const ShardedModel& model) {
  const auto& units = model.units();
  return static_cast<std::size_t>(
      std::count_if(units.begin(), units.end(), [](const Unit& unit) { return unit.trainable(); }));
}

std::int64_t frozen_bytes_of(const ShardedModel& model) {
  std::int64_t bytes = 0;
  for (const auto& unit : model.units())
    if (!unit.trainable())
      bytes += unit.whole().numel() * static_cast<std::int64_t>(sizeof(double));
  return bytes;
}

TEST(Bytes, AreWhatTheTableSaysInEveryPolicy) {
  constexpr int s = 3;
  const auto failures = as_ranks(kRanks, [&](Rank& self) -> Result<void> {
    for (const auto& policy : kPolicies) {
      auto training = TRY(Training::start(self.mesh, policy, {.method = Sgd{}}));
      TRY(training->step(0, s));  // the first asks around
      self.backend->forget_calls();
      TRY(training->step(1, s));
      const auto sizes = TRY(policy_of(policy, kRanks));
      const int g = sizes.gradients;
      const int gathers = sizes.keep ? 1 : 2;  // of each micro-step
      const auto blocks = bytes_of(*training->model, true);
      const auto root = bytes_of(*training->model, false);
      const auto frozen = frozen_bytes_of(*training->model);
      EXPECT_EQ(frozen > 0, sizes.parameters > 1) << policy;
      const auto inside =
          (blocks * (gathers + 1) * s + frozen * gathers * s + root * (s + 1)) * (g - 1) / g;
      const auto replicas = kRanks / g;
      const auto across = 2 * (blocks + root) / g * (replicas - 1) / replicas;
      auto bytes = bytes_by_group(self.backend->calls());
      if (g == 1 || g == kRanks) {
        EXPECT_EQ(bytes["world"], inside + across) << policy;
      } else {
        EXPECT_EQ(bytes["shard"], inside) << policy;
        EXPECT_EQ(bytes["replicate"], across) << policy;
      }
    }
    return {};
  });
  EXPECT_EQ(failures, "");
}

TEST(Bytes, TheReplicasSumEachUnitOnceAStep) {
  const auto failures = as_ranks(kRanks, [&](Rank& self) -> Result<void> {
    auto training = TRY(Training::start(self.mesh, "mics:2", {.method = Sgd{}}));
    self.backend->forget_calls();
    TRY(training->step(0, 3));
    std::size_t sums = 0;
    for (const auto& call : self.backend->calls())
      if (call.group.starts_with("replicate")) ++sums;
    EXPECT_EQ(sums, trainable_units(*training->model));
    return {};
  });
  EXPECT_EQ(failures, "");
}

TEST(Gather, ParametersHaveMemoryOnlyWhileTheyAreNeeded) {
  const auto failures = as_ranks(kRanks, [&](Rank& self) -> Result<void> {
    auto training = TRY(Training::start(self.mesh, "zero3", {.method = Sgd{}}));
    const auto& net = training->net;
    const auto bytes = [&](std::size_t layer) {
      return net.layers[layer]->weight.storage().nbytes();
    };
    EXPECT_EQ(bytes(0), 0u);
    const auto [x, y] = share_of(0, training->model->mesh());
    const auto hidden = (*training->model)(*net.layers[0], at::linear(x, net.first));
    EXPECT_EQ(bytes(0), 0u);
    TRY(training->model->backward(hidden.sum(), Sync::now));
    EXPECT_EQ(bytes(0), 0u);
    TRY(training->model->finish_gradients());

    for (int step = 0; step < 3; ++step) TRY(training->step(step, 3));
    // One in use, those fetched ahead, one that waits for what it does not use; gradients of two,
    // and of the root all through backward.
    const auto& units = training->model->units();
    const auto root =
        std::count_if(units.begin(), units.end(), [](const Unit& unit) { return !unit.divided(); });
    EXPECT_LE(training->model->most_buffers(), 1 + Gathers::kAhead + 1 + 2 + root);
    return {};
  });
  EXPECT_EQ(failures, "");
}

TEST(Gather, FrozenParametersOfBlocksComeAndGoToo) {
  const auto failures = as_ranks(kRanks, [&](Rank& self) -> Result<void> {
    auto training = TRY(Training::start(self.mesh, "mics:2+opt", {}));
    const auto& frozen = training->net.layers[1]->frozen;
    EXPECT_EQ(frozen.storage().nbytes(), 0u);
    EXPECT_TRUE(training->model->frozen().empty());
    double held = 0;
    for (const auto& [name, shape, owned, tensor, equal] : training->state()) {
      if (name.find("layer1.frozen") == std::string::npos) continue;
      EXPECT_EQ(name, "parameter/layer1.frozen") << "no state of the optimizer";
      EXPECT_EQ(difference(tensor, wave({7}, 1.5).narrow(0, owned.begin, owned.size())), 0);
      held += static_cast<double>(owned.size());
    }
    EXPECT_EQ(TRY(self.mesh.world().reduce(held, Reduction::sum, "what the ranks hold")), 14)
        << "each replica has it once";
    for (int step = 0; step < 2; ++step) TRY(training->step(step, 3));
    EXPECT_EQ(frozen.storage().nbytes(), 0u);
    return {};
  });
  EXPECT_EQ(failures, "");
}

TEST(Gather, AParameterThatSomeRanksDoNotUseHasTheSameGradientInEveryPolicy) {
  const OptimizerOptions options{.method = Sgd{.momentum = 0.9}, .learning_rate = 0.05};
  const auto failures = as_ranks(kRanks, [&](Rank& self) -> Result<void> {
    State expected;
    for (const auto& policy : kPolicies) {
      auto training = TRY(Training::start(self.mesh, policy, options));
      training->net.layers[1]->uses_all = self.rank == 1;
      for (int step = 0; step < 2; ++step) TRY(training->step(step, 3));
      if (expected.empty()) {
        for (const auto& one : training->state()) expected[one.name] = one.tensor.clone();
        EXPECT_GT(difference(expected.at("parameter/layer1.unused"), wave({3}, 1.6)), 1e-4);
      }
      EXPECT_LT(compare(*training, expected).first, 1e-10) << policy << ", rank " << self.rank;
    }
    return {};
  });
  EXPECT_EQ(failures, "");
}

// What a block keeps of its forward is told by who calls it again.
class Counted : public torch::nn::Module {
 public:
  Counted() { weight = register_parameter("weight", wave({7, 7}, 0.4)); }
  at::Tensor forward(const at::Tensor& x, double drop) {
    ++calls;
    return at::dropout(at::tanh(at::linear(x, weight)), drop, /*train=*/true);
  }

  at::Tensor weight;
  int calls = 0;
};

class Twice : public torch::nn::Module {
 public:
  Twice() : block(register_module("block", std::make_shared<Counted>())) {}

  std::shared_ptr<Counted> block;
};

// The gradient's norm, and what the generator gives afterwards.
Result<std::pair<double, double>> drop_out(Mesh mesh, const std::string& policy, int calls) {
  Twice net;
  auto model =
      TRY(shard(net, mesh, TRY(parse_policy(policy, mesh.world_size())), {net.block.get()}));
  auto optimizer = TRY(Optimizer::create(*model, {.method = Sgd{}}));
  at::manual_seed(11);
  auto x = wave({3, 7}, 0.5);  // needs no gradient, the block's parameters do
  for (int i = 0; i < 2; ++i) x = (*model)(*net.block, x, 0.5);
  EXPECT_EQ(net.block->calls, 2);
  TRY(model->backward(x.square().sum(), Sync::now));
  EXPECT_EQ(net.block->calls, calls);
  TRY(model->finish_gradients());
  return std::pair{TRY(optimizer->step()).gradient_norm, at::rand({1}).item<double>()};
}

TEST(Recompute, ABlockRunsAgainWithTheSameRandomNumbersAndChangesNothing) {
  const auto expected = drop_out(Mesh::single(), "ddp", 2).value();
  EXPECT_GT(expected.first, 0);
  EXPECT_EQ(drop_out(Mesh::single(), "ddp+recompute", 4).value(), expected);
}

TEST(Recompute, NeedsBlocks) {
  Net net;
  const auto model = shard(net, Mesh::single(), parse_policy("ddp+recompute", 1).value());
  ASSERT_FALSE(model);
  EXPECT_EQ(model.error().message,
            "policy ddp+recompute (1, 1, 1) runs one unit at a time again, but none is named: give "
            "shard() the module's blocks");
}

TEST(Gather, WithoutAutogradUnitsComeAndGoToo) {
  const auto failures = as_ranks(2, [&](Rank& self) -> Result<void> {
    auto training = TRY(Training::start(self.mesh, "zero3", {.method = Sgd{}}));
    auto whole = TRY(Training::start(self.mesh, "ddp", {.method = Sgd{}}));
    const auto [x, y] = share_of(0, self.mesh);
    const at::NoGradGuard no_grad;
    EXPECT_EQ(difference(training->net.loss(*training->model, x, y),
                         whole->net.loss(*whole->model, x, y)),
              0);
    EXPECT_EQ(training->net.layers[2]->weight.storage().nbytes(), 0u);
    return {};
  });
  EXPECT_EQ(failures, "");
}

TEST(Gather, ASequentialsChildrenAreItsUnits) {
  const auto failures = as_ranks(2, [&](Rank& self) -> Result<void> {
    torch::nn::Sequential sequential(std::make_shared<Layer>(0.1), std::make_shared<Layer>(0.2));
    const auto x = wave({3, 7}, 0.5);
    const auto expected = sequential->forward(x).detach().clone();
    const auto model = TRY(shard(*sequential, self.mesh, TRY(parse_policy("zero3", 2))));
    EXPECT_EQ(trainable_units(*model), 2u);
    const auto y = model->forward(x);
    EXPECT_EQ(difference(y.detach(), expected), 0);
    TRY(model->backward(y.sum(), Sync::now));
    return model->finish_gradients();
  });
  EXPECT_EQ(failures, "");
}

TEST(RollCall, RanksThatRunUnitsInAnotherOrderAreToldWhich) {
  const auto failures = as_ranks(kRanks, [&](Rank& self) -> Result<void> {
    auto training = TRY(Training::start(self.mesh, "zero3", {.method = Sgd{}}));
    auto& net = training->net;
    if (self.rank == 2) std::swap(net.layers[0], net.layers[1]);
    const auto stepped = training->step(0, 1);
    if (stepped) return Error{Code::invalid, "nobody was told"};
    EXPECT_EQ(stepped.error().message,
              "ranks 0 to 3 do not run the same units in the same order: rank 0 gathers unit 5 "
              "(layer0), rank 2 gathers unit 3 (layer1); run every unit on all ranks alike");
    EXPECT_FALSE(training->model->status());
    return {};
  });
  EXPECT_EQ(failures, "");
}

TEST(RollCall, ARankThatLeavesAUnitOutIsNamed) {
  const auto failures = as_ranks(2, [&](Rank& self) -> Result<void> {
    auto training = TRY(Training::start(self.mesh, "zero3", {.method = Sgd{}}));
    auto& net = training->net;
    if (self.rank == 1) {
      net.layers.pop_back();
      net.scales.pop_back();
    }
    const auto stepped = training->step(0, 1);
    if (stepped) return Error{Code::invalid, "nobody was told"};
    EXPECT_NE(stepped.error().message.find("(layer2)"), std::string::npos);
    return {};
  });
  EXPECT_EQ(failures, "");
}

// Acts of later steps are compared at their end.
TEST(RollCall, ALaterStepThatDiffersIsNamedBeforeItsEnd) {
  const auto failures = as_ranks(4, [&](Rank& self) -> Result<void> {
    RollCall roll(TRY(self.mesh.cut(2)), {"unit 0 (a)", "unit 1 (b)"});
    for (int step = 0; step < 3; ++step) {
      const bool differs = step == 2 && self.rank == 3;
      TRY(roll.announce(RollCall::Act::gather, 0));
      TRY(roll.announce(RollCall::Act::gather, differs ? 0 : 1));
      if (!differs) TRY(roll.announce(RollCall::Act::reduce, 1));
      const auto finished = roll.finish();
      if (step < 2 || self.rank < 2) {
        EXPECT_TRUE(finished) << "step " << step;
      } else {
        EXPECT_EQ(finished.error().message,
                  "ranks 2 to 3 do not run the same units in the same order: rank 2 gathers unit 1 "
                  "(b), rank 3 gathers unit 0 (a); run every unit on all ranks alike");
      }
    }
    return {};
  });
  EXPECT_EQ(failures, "");
}

std::string refusal(Net& net, const std::vector<torch::nn::Module*>& blocks) {
  const auto model = shard(net, Mesh::single(), {}, blocks);
  return model ? "" : model.error().message;
}

TEST(Blocks, WhatMakesNoSenseIsNamed) {
  Net net;
  Layer stranger(0);
  EXPECT_EQ(refusal(net, {net.layers[0].get(), net.layers[0].get()}),
            "unit layer0 is listed twice: name it once");
  EXPECT_EQ(refusal(net, {net.layers[0].get(), &stranger}),
            "unit 2 of 2 is no part of the module that is sharded: name its own submodules");
  Net outer;
  auto inner = outer.layers[0]->register_module("inner", std::make_shared<Layer>(0.4));
  EXPECT_EQ(refusal(outer, {outer.layers[0].get(), inner.get()}),
            "unit layer0.inner lies within unit layer0: name one of them");
}

TEST(Blocks, APolicyThatDividesParametersNeedsThem) {
  const auto failures = as_ranks(2, [&](Rank& self) -> Result<void> {
    Net net;
    const auto model = shard(net, self.mesh, TRY(parse_policy("zero3", 2)));
    EXPECT_FALSE(model);
    EXPECT_EQ(model.error().message,
              "policy zero3 (2, 2, 2) gathers one unit at a time, but none is named: give shard() "
              "the module's blocks, or use zero2");
    return {};
  });
  EXPECT_EQ(failures, "");
}

TEST(Policy, EveryNameIsReadAndSaid) {
  const auto said = [](const char* name) { return text(parse_policy(name, 4).value(), 4); };
  EXPECT_EQ(said("ddp"), "ddp (1, 1, 1)");
  EXPECT_EQ(said("zero1"), "zero1 (1, 1, 4)");
  EXPECT_EQ(said("zero2"), "zero2 (1, 4, 4)");
  EXPECT_EQ(said("zero3"), "zero3 (4, 4, 4)");
  EXPECT_EQ(said("mics:2"), "mics:2 (2, 2, 2)");
  EXPECT_EQ(said("mics:2+opt"), "mics:2+opt (2, 2, 4)");
  EXPECT_EQ(said("mics:2+opt+keep"), "mics:2+opt+keep (2, 2, 4)");
  EXPECT_EQ(said("mics:4"), "zero3 (4, 4, 4)");
  EXPECT_EQ(said("zero3+recompute+keep"), "zero3+keep+recompute (4, 4, 4)");
  EXPECT_EQ(said("auto+recompute"), "auto+recompute");
  EXPECT_EQ(parse_policy("auto:16GiB", 4).value().memory, 16_GiB);
}

TEST(Policy, WhatCannotBeIsNamedWithWhatCan) {
  const auto refused = [](const char* name) { return parse_policy(name, 6).error().message; };
  EXPECT_EQ(refused("zero4"),
            "policy zero4: there are ddp, zero1, zero2, zero3, mics:P, mics:P+opt or auto");
  EXPECT_EQ(refused("mics:"),
            "policy mics:: there are ddp, zero1, zero2, zero3, mics:P, mics:P+opt or auto");
  EXPECT_EQ(refused("mics:4"),
            "policy mics:4 (4, 4, 4): groups of 4 do not divide 6 ranks: use one "
            "of 1, 2, 3, 6");
  EXPECT_EQ(refused("zero1+opt"), "policy zero1+opt: only mics:P takes +opt");
  EXPECT_EQ(refused("ddp+keep"),
            "policy ddp+keep (1, 1, 1): parameters are whole all the time: "
            "leave +keep away");
  EXPECT_EQ(refused("auto:much").substr(0, 17), "policy auto:much:");
  EXPECT_EQ(check({.gradients = 2, .optimizer = 3}, 6).error().code, Code::invalid);
  EXPECT_EQ(check({.parameters = 2, .gradients = 6, .optimizer = 6}, 6).error().code,
            Code::invalid);
}

TEST(Layout, EachRankOwnsOneSliceOfEachUnitAndTogetherTheyOwnAll) {
  const auto build = [](int index) {
    return Layout::build({{"a", {7, 7}, at::kDouble, 0}, {"b", {3}, at::kDouble, 1}},
                         {.parameters = 4, .gradients = 4, .optimizer = 4}, {index, 4});
  };
  std::int64_t owned = 0;
  for (int index = 0; index < 4; ++index) {
    const auto layout = build(index);
    ASSERT_EQ(layout.units.size(), 2u);
    EXPECT_EQ(layout.units[0].block, 1);      // backward comes to the last first
    EXPECT_EQ(layout.units[0].elements, 32);  // four slices of 64 bytes
    EXPECT_EQ(layout.parameters[1].owned, index == 0 ? (Interval{0, 3}) : Interval{});
    EXPECT_EQ(layout.parameters[0].owned.begin, 16 * index);
    owned += layout.parameters[0].owned.size();
  }
  EXPECT_EQ(owned, 49);
}

}  // namespace
}  // namespace lockstep::sharded_test
