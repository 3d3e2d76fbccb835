#include "comm/probe/tune.h"

#include <gtest/gtest.h>

#include "comm/choice/choose.h"

namespace lockstep::comm {
namespace {

constexpr CallPlan kRing{Algorithm::ring, false}, kTree{Algorithm::double_tree, false};

// The ring has the cheapest prediction.
TunedSize measured(std::size_t bytes, double ring, double tree, double tree_wins) {
  TunedSize size{bytes, {}};
  size.plans.push_back({.plan = kRing, .measured = Seconds(ring), .predicted_best = true});
  size.plans.push_back({.plan = kTree, .measured = Seconds(tree), .wins = tree_wins});
  return size;
}

TEST(Tune, APlanMustTakeATwentiethLessThanThePredictedOneInNearlyAllRounds) {
  const std::vector<TunedSize> sizes = {measured(512, 1, 2, 0), measured(8, 1, 0.94, 1),
                                        measured(64, 1, 0.96, 1), measured(128, 1, 0.5, 0.7)};
  const auto calls = select_tuned_calls(sizes);
  const auto expect = [&](std::size_t i, std::size_t bytes, const CallPlan& plan) {
    EXPECT_EQ(calls[i].bytes, bytes);
    EXPECT_EQ(calls[i].plan, plan) << bytes;
  };
  ASSERT_EQ(calls.size(), 4u);
  expect(0, 8, kTree);
  expect(1, 64, kRing);
  expect(2, 128, kRing);
  expect(3, 512, kRing);
}

TEST(Tune, WhatWasNotMeasuredIsNotWorthAnything) {
  TunedSize size{8, {}};
  size.plans.push_back({.plan = kRing, .predicted_best = true});
  EXPECT_TRUE(select_tuned_calls(std::span(&size, 1)).empty());
}

TEST(Tune, APredictionMarksWhatIsTakenAndWhatWouldBeTakenWithoutATuning) {
  const GroupShape four{4, 4, 1, 1};
  Costs costs;
  costs.tuned = {{"all_reduce", 4, 4, 1_KiB, "ring"}};
  const std::size_t bytes = 64;
  const auto sizes = predict_all(Operation::all_reduce, std::span(&bytes, 1), four, costs);
  for (const TunedPlan& plan : sizes[0].plans) {
    EXPECT_EQ(plan.chosen, plan.plan == kRing) << text(plan.plan);
    EXPECT_EQ(plan.predicted_best, plan.plan == choose(Operation::all_reduce, bytes, four, {}))
        << text(plan.plan);
  }
}

TEST(Tune, AWholeTuningIsOfSixtyFourMebibytesInAllAtMost) {
  EXPECT_EQ(tuned_sizes(Operation::all_reduce, 8).back(), std::size_t{64} << 20);
  EXPECT_EQ(tuned_sizes(Operation::all_gather, 8).back(), std::size_t{4} << 20);
  EXPECT_EQ(tuned_sizes(Operation::reduce_scatter, 4096).back(), std::size_t{16} << 10);
  for (const auto bytes : tuned_sizes(Operation::broadcast, 3)) EXPECT_EQ(bytes % 4, 0u);
}

}  // namespace
}  // namespace lockstep::comm
