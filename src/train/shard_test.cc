#include "train/shard.h"

#include <cmath>
#include <limits>

#include <ATen/TensorIndexing.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/linear.h>
#include <ATen/ops/mse_loss.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/sin.h>
#include <ATen/ops/tanh.h>
#include <ATen/ops/zeros.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/custom_function.h>
#include <torch/nn/module.h>

#include "base/format.h"
#include "comm/flight/label.h"
#include "train/optimizer/optimizer.h"
#include "train/ranks_for_test.h"

namespace lockstep::train::shard_test {
namespace {

using ranks_for_test::Rank;
using ranks_for_test::run_as_ranks;
using ::testing::AllOf;
using ::testing::HasSubstr;

// Pseudo-random numbers that are the same everywhere.
at::Tensor wave(at::IntArrayRef shape, double phase) {
  const auto count = c10::multiply_integers(shape);
  return at::sin(at::arange(count, at::kDouble) * 1.7 + phase).view(shape);
}

// Odd sizes, so that no parameter fills its slot; one parameter is used twice.
class Net : public torch::nn::Module {
 public:
  Net() {
    first = register_parameter("first", wave({7, 5}, 0.1) * 0.5);
    shared = register_parameter("shared", wave({7, 7}, 0.2) * 0.5);
    again = register_parameter("again", shared);
    bias = register_parameter("bias", wave({7}, 0.3) * 0.5);
    frozen = register_parameter("frozen", wave({7}, 0.4), /*requires_grad=*/false);
    unused = register_parameter("unused", wave({3}, 0.5));
    last = register_parameter("last", wave({3, 7}, 0.6) * 0.5);
    seen = register_buffer("seen", at::zeros({1}, at::kDouble));
  }
  at::Tensor forward(const at::Tensor& x) const {
    auto y = at::tanh(at::linear(x, first) + frozen);
    y = at::tanh(at::linear(y, shared, bias));
    return at::linear(at::tanh(at::linear(y, again)), last);
  }
  at::Tensor loss(const at::Tensor& x, const at::Tensor& y) const {
    return at::mse_loss(forward(x), y);
  }

  at::Tensor first, shared, again, bias, frozen, unused, last, seen;
};

// Cut into several units although it is small.
Policy tiny_buckets() { return {.bucket = 512_B, .first_bucket = 128_B}; }

constexpr int kGlobalBatch = 12;

struct Share {
  at::Tensor x, y;
};

Share share_of(int step, int rank, int ranks) {
  const auto size = kGlobalBatch / ranks;
  const auto from = rank * size;
  return {wave({kGlobalBatch, 5}, step).narrow(0, from, size),
          wave({kGlobalBatch, 3}, step + 0.5).narrow(0, from, size)};
}

double difference(const at::Tensor& a, const at::Tensor& b) {
  return (a - b).abs().max().item<double>();
}

TEST(Shard, RankZerosParametersAndBuffersBecomeEverybodys) {
  const auto failures = run_as_ranks(2, [](Rank& self) -> Result<void> {
    Net net;
    if (self.rank == 1) {
      const at::NoGradGuard no_grad;
      net.first.zero_();
      net.frozen.zero_();
      net.seen.fill_(7);
    }
    const auto model = TRY(shard(net, self.mesh, tiny_buckets()));
    EXPECT_EQ(difference(net.first.detach(), Net().first.detach()), 0);
    EXPECT_EQ(difference(net.frozen, Net().frozen), 0);
    EXPECT_EQ(net.seen.item<double>(), 0);
    return {};
  });
  EXPECT_EQ(failures, "");
}

TEST(Shard, BuffersThatFollowEachRanksDataAreMadeEqualByTheirMean) {
  const auto failures = run_as_ranks(4, [](Rank& self) -> Result<void> {
    Net net;
    const auto count = net.register_buffer("count", at::zeros({1}, at::kLong));
    auto model = TRY(shard(net, self.mesh, tiny_buckets()));
    net.seen.fill_(self.rank);
    count.fill_(5 - self.rank);
    TRY(model->average_buffers());
    EXPECT_EQ(net.seen.item<double>(), 1.5);
    EXPECT_EQ(count.item<std::int64_t>(), 5) << "rank 0's";
    return {};
  });
  EXPECT_EQ(failures, "");
}

TEST(Shard, ASharedParameterIsThereOnceAndAFrozenOneInNoUnit) {
  Net net;
  const auto model = shard(net, Mesh::single(), tiny_buckets()).value();
  std::vector<std::string> names;
  for (const auto& parameter : model->parameters()) names.push_back(parameter.name);
  EXPECT_EQ(names, (std::vector<std::string>{"first", "shared", "bias", "unused", "last"}));
  ASSERT_EQ(model->frozen().size(), 1u);
  EXPECT_EQ(model->frozen()[0].name, "frozen");
  EXPECT_TRUE(net.again.is_same(net.shared));
}

TEST(Shard, AnUnusedParameterHasAGradientOfZeroAndHoldsNobodyUp) {
  const auto failures = run_as_ranks(2, [](Rank& self) -> Result<void> {
    Net net;
    auto model = TRY(shard(net, self.mesh, tiny_buckets()));
    const auto [x, y] = share_of(0, self.rank, 2);
    // Rank 1 does not even use the whole net.
    const auto loss = self.rank == 0 ? net.loss(x, y) : (net.first * net.first).sum();
    TRY(model->backward(loss, Sync::now));
    TRY(model->finish_gradients());
    EXPECT_EQ(net.unused.grad().abs().sum().item<double>(), 0);
    EXPECT_GT(net.last.grad().abs().sum().item<double>(), 0);
    return {};
  });
  EXPECT_EQ(failures, "");
}

// In backward, waits for the all-reduce of the units after it.
struct Gate : torch::autograd::Function<Gate> {
  static at::Tensor forward(torch::autograd::AutogradContext* context, const at::Tensor& x,
                            const std::function<void()>* passed) {
    context->saved_data["passed"] = reinterpret_cast<std::int64_t>(passed);
    return x.view_as(x);
  }
  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* context,
                                                 torch::autograd::variable_list gradients) {
    const auto address = context->saved_data["passed"].toInt();
    (*reinterpret_cast<const std::function<void()>*>(address))();
    return {gradients[0], at::Tensor()};
  }
};

TEST(Shard, ABucketIsReducedBeforeBackwardHasEnded) {
  const auto failures = run_as_ranks(4, [](Rank& self) -> Result<void> {
    Net net;
    auto model = TRY(shard(net, self.mesh, tiny_buckets()));
    EXPECT_GE(model->units().size(), 3u);
    bool reduced = false;
    const std::function<void()> passed = [&] {
      // unused is declared before last, and so depends on its unit only if they are one unit.
      reduced = self.backend->wait_for_completed(1, std::chrono::seconds(10));
    };
    const auto [x, y] = share_of(0, self.rank, 4);
    auto hidden = Gate::apply(at::tanh(at::linear(x, net.first)), &passed);
    hidden = at::tanh(at::linear(hidden, net.shared, net.bias));
    const auto loss = at::mse_loss(at::linear(hidden, net.last), y);
    TRY(model->backward(loss, Sync::now));
    EXPECT_TRUE(reduced) << "no all-reduce was complete when backward came to the first layer";
    TRY(model->finish_gradients());
    return {};
  });
  EXPECT_EQ(failures, "");
}

TEST(Shard, AccumulationReducesOnceAStepInTheOrderOfUnits) {
  const auto failures = run_as_ranks(2, [](Rank& self) -> Result<void> {
    Net net;
    auto model = TRY(shard(net, self.mesh, tiny_buckets()));
    const auto [x, y] = share_of(0, self.rank, 2);
    TRY(model->backward(net.loss(x, y), Sync::later));
    TRY(model->backward(net.loss(x, y), Sync::later));
    EXPECT_TRUE(self.backend->all_reduce_sizes().empty());
    TRY(model->backward(net.loss(x, y), Sync::now));
    TRY(model->finish_gradients());
    std::vector<std::int64_t> sizes;
    for (const auto& unit : model->layout().units) sizes.push_back(unit.elements);
    EXPECT_EQ(self.backend->all_reduce_sizes(), sizes);
    std::vector<comm::FlightLabel::Words> labels;
    for (std::size_t i = 0; i < sizes.size(); ++i)
      labels.push_back(comm::FlightLabel::encode(format("gradients of unit {}", i)));
    EXPECT_EQ(self.backend->labels(), labels);
    return {};
  });
  EXPECT_EQ(failures, "");
}

TEST(Shard, ZeroGradOfTheModuleDoesNotTakeTheGradientsAway) {
  Net net;
  auto model = shard(net, Mesh::single(), tiny_buckets()).value();
  const auto [x, y] = share_of(0, 0, 1);
  ASSERT_TRUE(model->backward(net.loss(x, y), Sync::now));
  ASSERT_TRUE(model->finish_gradients());
  const auto before = net.last.grad().clone();
  net.zero_grad();
  ASSERT_TRUE(model->backward(net.loss(x, y), Sync::now));
  ASSERT_TRUE(model->finish_gradients());
  EXPECT_EQ(difference(before, net.last.grad()), 0);
  EXPECT_EQ(net.last.grad().storage().data(), model->units()[0].gradients().storage().data());
}

TEST(Shard, AModuleIsShardedOnce) {
  Net net;
  const auto model = shard(net, Mesh::single()).value();
  const auto again = shard(net, Mesh::single());
  ASSERT_FALSE(again);
  EXPECT_EQ(again.error().code, Code::already_exists);
  EXPECT_THAT(again.error().message, AllOf(HasSubstr("parameter first"), HasSubstr("already")));
}

TEST(Shard, ItCanBeShardedAgainWhenTheFirstIsGone) {
  Net net;
  {
    const auto model = shard(net, Mesh::single()).value();
  }
  EXPECT_TRUE(shard(net, Mesh::single()));
}

TEST(Shard, CallsOutOfOrderAreRefused) {
  Net net;
  auto model = shard(net, Mesh::single()).value();
  const auto [x, y] = share_of(0, 0, 1);
  EXPECT_EQ(model->finish_gradients().error().code, Code::invalid);
  ASSERT_TRUE(model->backward(net.loss(x, y), Sync::now));
  EXPECT_EQ(model->backward(net.loss(x, y), Sync::now).error().code, Code::invalid);
  EXPECT_TRUE(model->finish_gradients());
}

TEST(Shard, ALostPeerIsAnErrorThatNamesTheUnit) {
  const auto failures = run_as_ranks(2, [](Rank& self) -> Result<void> {
    Net net;
    auto mesh = TRY(Mesh::replicas(
        [&] {
          auto group = c10::make_intrusive<c10d::ProcessGroup>(self.rank, 2);
          group->setBackend(c10::DeviceType::CPU, c10d::ProcessGroup::BackendType::CUSTOM,
                            self.backend);
          group->setDefaultBackend(c10d::ProcessGroup::BackendType::CUSTOM);
          return group;
        }(),
        ranks_for_test::kBound));
    auto model = TRY(shard(net, mesh, tiny_buckets()));
    if (self.rank == 1) return {};
    const auto [x, y] = share_of(0, 0, 2);
    TRY(model->backward(net.loss(x, y), Sync::now));
    const auto finished = model->finish_gradients();
    EXPECT_FALSE(finished);
    EXPECT_NE(finished.error().message.find("all-reduce of gradients of unit"), std::string::npos)
        << finished.error().message;
    return {};
  });
  EXPECT_EQ(failures, "");
}

TEST(Optimizer, ANormThatIsNotFiniteSkipsTheStepOnEveryRank) {
  const auto failures = run_as_ranks(4, [](Rank& self) -> Result<void> {
    Net net;
    auto model = TRY(shard(net, self.mesh, tiny_buckets()));
    auto optimizer = TRY(Optimizer::create(*model, {.method = Sgd{}, .learning_rate = 0.1}));
    const auto before = net.last.detach().clone();
    const auto [x, y] = share_of(0, self.rank, 4);
    auto loss = net.loss(x, y);
    if (self.rank == 2) loss = loss * std::numeric_limits<double>::infinity();
    TRY(model->backward(loss, Sync::now));
    TRY(model->finish_gradients());
    const auto step = TRY(optimizer->step());
    EXPECT_FALSE(step.taken);
    EXPECT_EQ(step.non_finite->rank, 2);
    EXPECT_THAT(step.non_finite->what, AllOf(HasSubstr("loss"), HasSubstr("micro-step 1")));
    EXPECT_EQ(optimizer->steps(), 0);
    EXPECT_EQ(difference(before, net.last.detach()), 0);

    TRY(model->backward(net.loss(x, y), Sync::now));
    TRY(model->finish_gradients());
    EXPECT_TRUE(TRY(optimizer->step()).taken);
    return {};
  });
  EXPECT_EQ(failures, "");
}

TEST(Optimizer, SettingsThatMakeNoSenseAreRefused) {
  Net net;
  auto model = shard(net, Mesh::single()).value();
  EXPECT_EQ(Optimizer::create(*model, {.learning_rate = -1}).error().code, Code::invalid);
  EXPECT_EQ(Optimizer::create(*model, {.clip_norm = 0.0}).error().code, Code::invalid);
  EXPECT_EQ(Optimizer::create(*model, {.method = AdamW{.beta1 = 2}}).error().code, Code::invalid);
}

TEST(Mesh, AShapeThatDoesNotFitTheWorldIsNamed) {
  const auto group = c10::make_intrusive<c10d::ProcessGroup>(0, 4);
  const auto refused = Mesh::create(group, {.replicate = 3});
  EXPECT_EQ(refused.error().code, Code::invalid);
  EXPECT_THAT(refused.error().message, AllOf(HasSubstr("pp 1 x replicate 3 x shard 1 x tp 1"),
                                             HasSubstr("3 ranks"), HasSubstr("the run has 4")));
  EXPECT_EQ(Mesh::create(group, {.replicate = 2, .tp = 2}).error().code, Code::invalid);
  EXPECT_EQ(Mesh::create(group, {.replicate = 4}).value().world_size(), 4);
}

TEST(Layout, BucketsAreCutByBytesInReverseOrderAndByType) {
  const auto layout = Layout::build({{"a", {100}, at::kFloat},
                                     {"b", {1000}, at::kFloat},
                                     {"c", {5}, at::kBFloat16},
                                     {"d", {3, 3}, at::kFloat}},
                                    {.bucket = 1_KiB, .first_bucket = 64_B});
  ASSERT_EQ(layout.units.size(), 4u);
  EXPECT_EQ(layout.units[0].parameters, (std::vector<int>{3}));  // d fills the first bucket
  EXPECT_EQ(layout.units[1].parameters, (std::vector<int>{2}));  // c is of another type
  EXPECT_EQ(layout.units[2].parameters, (std::vector<int>{1}));  // b is larger than a bucket
  EXPECT_EQ(layout.units[3].parameters, (std::vector<int>{0}));
  EXPECT_EQ(layout.units[0].elements, 16);  // 9 of them, padded to 64 bytes
  EXPECT_EQ(layout.parameters[1].owned, (Interval{0, 1000}));
}

TEST(Layout, ABucketBeginsNoModuleThatItCannotHold) {
  const auto layout = Layout::build({{"0.weight", {200}, at::kFloat},
                                     {"0.bias", {10}, at::kFloat},
                                     {"1.weight", {100}, at::kFloat},
                                     {"1.bias", {10}, at::kFloat},
                                     {"2.weight", {100}, at::kFloat},
                                     {"2.bias", {10}, at::kFloat}},
                                    {.bucket = 1_KiB, .first_bucket = 64_B});
  ASSERT_EQ(layout.units.size(), 3u);
  EXPECT_EQ(layout.units[0].parameters, (std::vector<int>{5, 4})) << "the first goes on, too";
  EXPECT_EQ(layout.units[1].parameters, (std::vector<int>{3, 2})) << "0.bias alone would fit";
  EXPECT_EQ(layout.units[2].parameters, (std::vector<int>{1, 0}));
}

}  // namespace
}  // namespace lockstep::train::shard_test
