// Parameters are gathered before their use, and released afterwards; also for recomputed blocks.
#include "train/engine/parameter_gatherer.h"

#include <algorithm>
#include <memory>
#include <string>
#include <utility>

#include <ATen/Context.h>
#include <ATen/core/Tensor.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/dropout.h>
#include <ATen/ops/linear.h>
#include <ATen/ops/rand.h>
#include <ATen/ops/tanh.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/nn/module.h>
#include <torch/nn/modules/container/sequential.h>

#include "train/optimizer/optimizer.h"
#include "train/ranks_for_test.h"
#include "train/shard.h"
#include "train/trainings_for_test.h"

namespace lockstep::train::gather_test {
namespace {

using ranks_for_test::Rank;
using ranks_for_test::run_as_ranks;
using ::testing::AllOf;
using ::testing::HasSubstr;
using trainings_for_test::difference;
using trainings_for_test::kRanks;
using trainings_for_test::Layer;
using trainings_for_test::Net;
using trainings_for_test::share_of;
using trainings_for_test::trainable_units;
using trainings_for_test::Training;
using trainings_for_test::wave;

TEST(Gather, ParametersHaveMemoryOnlyWhileTheyAreNeeded) {
  const auto failures = run_as_ranks(kRanks, [&](Rank& self) -> Result<void> {
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
    // One in use, the prefetched ones, one that waits for gradients it does not use; gradients of
    // two, and of the root all through backward.
    const auto& units = training->model->units();
    const auto root =
        std::count_if(units.begin(), units.end(), [](const Unit& unit) { return !unit.divided(); });
    EXPECT_LE(training->model->buffers_in_use_max(),
              1 + ParameterGatherer::kPrefetchedBlocks + 1 + 2 + root);
    return {};
  });
  EXPECT_EQ(failures, "");
}

TEST(Gather, FrozenParametersOfBlocksComeAndGoToo) {
  const auto failures = run_as_ranks(kRanks, [&](Rank& self) -> Result<void> {
    auto training = TRY(Training::start(self.mesh, "mics:2+opt", {}));
    const auto& frozen = training->net.layers[1]->frozen;
    EXPECT_EQ(frozen.storage().nbytes(), 0u);
    EXPECT_TRUE(training->model->frozen().empty());
    double held = 0;
    for (const auto& [name, shape, owned, tensor, equal, steady] : training->state()) {
      if (name.find("layer1.frozen") == std::string::npos) continue;
      EXPECT_EQ(name, "parameter/layer1.frozen") << "no state of the optimizer";
      EXPECT_EQ(difference(tensor, wave({7}, 1.5).narrow(0, owned.begin, owned.size())), 0);
      held += static_cast<double>(owned.size());
    }
    EXPECT_EQ(TRY(self.mesh.world().all_reduce(held, ReduceOp::sum, "what the ranks hold")), 14)
        << "each replica has it once";
    for (int step = 0; step < 2; ++step) TRY(training->step(step, 3));
    EXPECT_EQ(frozen.storage().nbytes(), 0u);
    return {};
  });
  EXPECT_EQ(failures, "");
}

// Counts how often a block is called, which shows what it keeps of its forward.
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

// The gradient's norm, and the generator's next number.
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
  EXPECT_EQ(model.error().code, Code::invalid);
  EXPECT_THAT(model.error().message, AllOf(HasSubstr("ddp+recompute (1, 1, 1)"),
                                           HasSubstr("shard()"), HasSubstr("blocks")));
}

TEST(Gather, WithoutAutogradUnitsComeAndGoToo) {
  const auto failures = run_as_ranks(2, [&](Rank& self) -> Result<void> {
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
  const auto failures = run_as_ranks(2, [&](Rank& self) -> Result<void> {
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

}  // namespace
}  // namespace lockstep::train::gather_test
