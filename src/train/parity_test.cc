// Every policy trains as one process does: values, norm, masters of 16-bit parameters.
#include <string>
#include <vector>

#include <ATen/Parallel.h>
#include <ATen/core/Tensor.h>
#include <gtest/gtest.h>

#include "train/optimizer/optimizer.h"
#include "train/ranks_for_test.h"
#include "train/trainings_for_test.h"

namespace lockstep::train::parity_test {
namespace {

using ranks_for_test::Rank;
using ranks_for_test::run_as_ranks;
using trainings_for_test::alone;
using trainings_for_test::compare;
using trainings_for_test::difference;
using trainings_for_test::elements_of;
using trainings_for_test::is_divided;
using trainings_for_test::kPolicies;
using trainings_for_test::kRanks;
using trainings_for_test::policy_of;
using trainings_for_test::start_of;
using trainings_for_test::State;
using trainings_for_test::Training;
using trainings_for_test::wave;

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
  const auto failures = run_as_ranks(kRanks, [&](Rank& self) -> Result<void> {
    for (const auto& policy : kPolicies) {
      auto training = TRY(Training::start(self.mesh, policy, options));
      for (int step = 0; step < steps; ++step) TRY(training->step(step, parts));
      const auto [most, held] = compare(*training, expected);
      EXPECT_LT(most, 1e-10) << policy << ", rank " << self.rank;
      const double all = TRY(self.mesh.world().all_reduce(static_cast<double>(held), ReduceOp::sum,
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
  const auto failures = run_as_ranks(kRanks, [&](Rank& self) -> Result<void> {
    for (const auto& policy : kPolicies) {
      auto training = TRY(Training::start(self.mesh, policy, options));
      EXPECT_NEAR(TRY(training->step(0, 1)), expected, 1e-12) << policy;
    }
    return {};
  });
  EXPECT_EQ(failures, "");
}

// A step moves parameters by less than bfloat16 resolves: only masters keep that.
TEST(Optimizer, StepsTooSmallForSixteenBitsAddUpInTheMasters) {
  const OptimizerOptions options{.method = Sgd{}, .learning_rate = 1e-4};
  const auto exact = alone(options, 8);
  const auto failures = run_as_ranks(kRanks, [&](Rank& self) -> Result<void> {
    for (const auto& policy : {"ddp", "zero2", "mics:2+opt"}) {
      auto training = TRY(Training::start(self.mesh, policy, options, at::kBFloat16));
      const auto begin = training->state();
      std::vector<at::Tensor> before;
      for (const auto& one : begin) before.push_back(one.tensor.clone());
      for (int step = 0; step < 8; ++step) TRY(training->step(step, 3));
      for (std::size_t i = 0; i < begin.size(); ++i) {
        const auto& [name, shape, owned, tensor, equal, steady] = begin[i];
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

TEST(Gradient, OfAParameterThatSomeRanksDoNotUseIsTheSameInEveryPolicy) {
  const OptimizerOptions options{.method = Sgd{.momentum = 0.9}, .learning_rate = 0.05};
  const auto failures = run_as_ranks(kRanks, [&](Rank& self) -> Result<void> {
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

}  // namespace
}  // namespace lockstep::train::parity_test
