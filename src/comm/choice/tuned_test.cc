#include "comm/choice/tuned.h"

#include <gtest/gtest.h>

#include "comm/choice/choose.h"
#include "comm/choice/plan_chooser.h"

namespace lockstep::comm {
namespace {

constexpr GroupShape kEight{8, 4, 2, 2};
constexpr auto kAllReduce = Operation::all_reduce;

Costs tuned_costs() {
  Costs costs;
  costs.tuned = {{"all_reduce", 4, 8, 4_KiB, "flat"},
                 {"all_reduce", 4, 8, 1_MiB, "double_tree,hierarchical"}};
  return costs;
}

std::string choice(std::size_t bytes, const GroupShape& group = kEight,
                   Operation operation = kAllReduce) {
  return text(choose(operation, bytes, group, tuned_costs()));
}

TEST(Tuned, GoesBeforeWhatIsPredicted) {
  EXPECT_EQ(choice(8), "flat");
  EXPECT_EQ(choice(4096), "flat");
  EXPECT_EQ(choice(4100), "double_tree,hierarchical");
  EXPECT_EQ(choice(1 << 20), "double_tree,hierarchical");
  PlanChooser chooser(kEight, std::nullopt, tuned_costs());
  for (int again = 0; again < 2; ++again)
    EXPECT_EQ(text(chooser.plan_for(kAllReduce, 4100)), "double_tree,hierarchical");
}

TEST(Tuned, SaysNothingOfOtherCallsOrGroups) {
  const auto predicted = [](std::size_t bytes, const GroupShape& group, Operation operation) {
    return text(choose(operation, bytes, group, Costs{}));
  };
  const GroupShape four{4, 4, 1, 1}, two_hosts{8, 2, 4, 4};
  EXPECT_EQ(choice((1 << 20) + 4), predicted((1 << 20) + 4, kEight, kAllReduce));
  EXPECT_EQ(choice(8, four), predicted(8, four, kAllReduce));
  EXPECT_EQ(choice(8, two_hosts), predicted(8, two_hosts, kAllReduce));
  EXPECT_EQ(choice(8, kEight, Operation::broadcast), predicted(8, kEight, Operation::broadcast));
}

TEST(Tuned, APlanThatDoesNotFitTheCallIsNotTaken) {
  Costs costs;
  costs.tuned = {{"all_reduce", 4, 8, 1_MiB, "flat"}};
  const auto plan = choose(kAllReduce, 64 << 10, kEight, costs);
  EXPECT_TRUE(fits(plan, kAllReduce, 64 << 10, kEight));
  EXPECT_EQ(plan, choose(kAllReduce, 64 << 10, kEight, Costs{}));
}

TEST(Tuned, WhatIsForcedGoesBeforeWhatWasTuned) {
  PlanChooser chooser(kEight, CallPlan{Algorithm::ring, false}, tuned_costs());
  EXPECT_EQ(text(chooser.plan_for(kAllReduce, 8)), "ring");
}

TEST(Tuned, PlansThatThereAreNotAreRefusedWithThoseThatThereAre) {
  EXPECT_TRUE(check_tuned(tuned_costs().tuned));
  const map::TunedRange wrong{"all_reduce", 4, 8, 4_KiB, "star"};
  const auto checked = check_tuned(std::span(&wrong, 1));
  EXPECT_EQ(checked.error().code, Code::invalid);
  EXPECT_TRUE(
      checked.error().message.starts_with("what was tuned for all_reduce of up to 4.0 KiB: there "
                                          "is no algorithm 'star'; there are flat"))
      << checked.error().message;
}

TEST(Tuned, RangesEndInTheMiddleBetweenSizesWithDifferentPlans) {
  const CallPlan flat{Algorithm::flat, false}, ring{Algorithm::ring, true};
  const std::vector<TunedCall> calls = {
      {64, flat}, {1 << 10, flat}, {16 << 10, ring}, {64 << 10, ring}, {1 << 20, ring}};
  const std::vector<map::TunedRange> expected = {{"all_reduce", 4, 8, 4_KiB, "flat"},
                                                 {"all_reduce", 4, 8, 1_MiB, "ring,hierarchical"}};
  EXPECT_EQ(tuned_ranges(kAllReduce, kEight, calls), expected);
  EXPECT_TRUE(tuned_ranges(kAllReduce, kEight, {}).empty());
}

TEST(Tuned, WhatWasFoundReplacesWhatWasKnownOfTheSameCallsOnly) {
  const map::TunedRange here{"all_reduce", 4, 8, 1_MiB, "ring"};
  const map::TunedRange other_group{"all_reduce", 2, 8, 1_MiB, "ring"};
  const map::TunedRange other_call{"broadcast", 4, 8, 1_MiB, "ring"};
  const map::TunedRange found{"all_reduce", 4, 8, 64_KiB, "double_tree"};
  const std::vector<map::TunedRange> before = {here, other_group, other_call};
  EXPECT_EQ(merge_tuned(before, std::span(&found, 1)),
            (std::vector<map::TunedRange>{other_group, other_call, found}));
}

}  // namespace
}  // namespace lockstep::comm
