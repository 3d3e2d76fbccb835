#include "train/gradient/non_finite_detector.h"

#include <functional>
#include <limits>
#include <memory>
#include <string>
#include <vector>

#include <ATen/ops/full.h>
#include <ATen/ops/full_like.h>
#include <ATen/ops/linear.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/tanh.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/nn/module.h>

#include "base/format.h"
#include "train/optimizer/optimizer.h"
#include "train/ranks_for_test.h"
#include "train/shard.h"

namespace lockstep::train::finite_looks_test {
namespace {

using ranks_for_test::Rank;
using ranks_for_test::run_as_ranks;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::StartsWith;

constexpr double kInfinity = std::numeric_limits<double>::infinity();

class Layer : public torch::nn::Module {
 public:
  Layer() { weight = register_parameter("weight", at::full({5, 5}, 0.1, at::kDouble)); }
  at::Tensor forward(const at::Tensor& x) {
    auto y = at::tanh(at::linear(x, weight)) * factor;
    if (spoils_backward && y.requires_grad())
      y.register_hook([](const at::TensorBase& gradient) {
        return at::full_like(at::Tensor(gradient), kInfinity);
      });
    return y;
  }

  at::Tensor weight;
  double factor = 1;
  bool spoils_backward = false;
};

class Net : public torch::nn::Module {
 public:
  Net() {
    for (int i = 0; i < 3; ++i)
      layers.push_back(register_module(format("layer{}", i), std::make_shared<Layer>()));
  }
  std::vector<torch::nn::Module*> blocks() const {
    std::vector<torch::nn::Module*> all;
    for (const auto& layer : layers) all.push_back(layer.get());
    return all;
  }
  at::Tensor loss(ShardedModel& model) {
    auto x = at::ones({2, 5}, at::kDouble);
    for (const auto& layer : layers) x = model(*layer, x);
    return x.sum();
  }

  std::vector<std::shared_ptr<Layer>> layers;
};

// The report to all four ranks after two micro-steps; before the second one rank 2 runs `spoil`.
std::string first_of(const std::string& policy, const std::function<void(Net&)>& spoil) {
  std::vector<std::string> told(4);
  const auto failures = run_as_ranks(4, [&](Rank& self) -> Result<void> {
    Net net;
    auto model = TRY(shard(net, self.mesh, TRY(parse_policy(policy, 4)), net.blocks()));
    auto optimizer = TRY(Optimizer::create(*model, {.method = Sgd{}}));
    TRY(model->backward(net.loss(*model), Sync::later));
    if (self.rank == 2) spoil(net);
    TRY(model->backward(net.loss(*model), Sync::now));
    TRY(model->finish_gradients());
    const auto step = TRY(optimizer->step());
    EXPECT_EQ(step.taken, !step.non_finite.has_value());
    if (step.non_finite) told[static_cast<std::size_t>(self.rank)] = step.non_finite->describe();
    return {};
  });
  EXPECT_EQ(failures, "");
  EXPECT_EQ(told, std::vector(4, told.front())) << "all ranks are told the same";
  return told.front();
}

TEST(NonFiniteDetector, NameTheBlockAndTheRankWhoseOutputWasFirst) {
  for (const std::string policy : {"ddp", "mics:2", "zero3", "zero3+recompute"})
    EXPECT_THAT(first_of(policy, [](Net& net) { net.layers[1]->factor = kInfinity; }),
                AllOf(StartsWith("rank 2 "), HasSubstr("the output of layer1 in micro-step 2")))
        << policy;
}

TEST(NonFiniteDetector, NameTheUnitWhoseGradientsWereFirstAndTheRankOrItsReplica) {
  const auto spoil = [](Net& net) { net.layers[1]->spoils_backward = true; };
  // One bucket holds all of them.
  EXPECT_THAT(first_of("ddp", spoil),
              AllOf(StartsWith("rank 2 "),
                    HasSubstr("the gradients of unit 0 (layer2.weight to layer0.weight)")));
  for (const std::string policy : {"mics:2", "mics:2+opt"})
    EXPECT_THAT(first_of(policy, spoil), AllOf(StartsWith("the replica of rank 2 "),
                                               HasSubstr("the gradients of unit 1 (layer1)")))
        << policy;
}

TEST(NonFiniteDetector, KeepNothingOfAStepThatWasTaken) {
  EXPECT_EQ(first_of("mics:2", [](Net&) {}), "");
}

TEST(NonFiniteDetector, OneRankAloneIsToldTheUnit) {
  Net net;
  auto model = shard(net, Mesh::single()).value();
  auto optimizer = Optimizer::create(*model, {.method = Sgd{}}).value();
  net.layers[0]->spoils_backward = true;
  ASSERT_TRUE(model->backward(net.loss(*model), Sync::now));
  ASSERT_TRUE(model->finish_gradients());
  const auto step = optimizer->step().value();
  ASSERT_FALSE(step.taken);
  EXPECT_EQ(step.non_finite->rank, 0);
  EXPECT_THAT(step.non_finite->describe(),
              HasSubstr("the gradients of unit 0 (layer2.weight to layer0.weight)"));
}

TEST(NonFiniteDetector, TenStepsInARowThatAreNotTakenAreAnErrorThatNamesTheLast) {
  Net net;
  auto model = shard(net, Mesh::single()).value();
  auto optimizer = Optimizer::create(*model, {.method = Sgd{}}).value();
  for (int step = 1; step <= 10; ++step) {
    ASSERT_TRUE(model->backward(net.loss(*model) * kInfinity, Sync::now));
    ASSERT_TRUE(model->finish_gradients());
    const auto done = optimizer->step();
    ASSERT_EQ(done.has_value(), step < 10);
    if (step < 10) continue;
    EXPECT_THAT(done.error().message, HasSubstr("the loss in micro-step 1"));
  }
}

}  // namespace
}  // namespace lockstep::train::finite_looks_test
