#include "train/recovery/describe_recovery.h"

#include <numeric>

#include <gtest/gtest.h>

namespace lockstep::train {
namespace {

TEST(RecoveryStory, TellsWhoWasLostWhoLeavesAndWhoGoesOnAsWhat) {
  const RecoveryPlan plan{.slots = {2, 3}, .shards = 2, .lost = {1}, .leaving = {0}};
  EXPECT_EQ(
      describe_recovery(plan, 41, std::chrono::milliseconds(380)),
      "rank 1 was lost; rank 0 leaves, no replica needs it; ranks 2 and 3 go on as ranks 0 and 1 "
      "after step 41 from memory, 380ms after they noticed");
}

TEST(RecoveryStory, TellsWhoWasStartedAgainAndWhereTheStateComesFrom) {
  RecoveryPlan plan{.slots = {0, 1, 2, 3}, .replacements = {3}};
  EXPECT_EQ(describe_recovery(plan, 7, std::chrono::seconds(2)),
            "rank 3 died and was started again; ranks 0, 1, 2 and 3 go on after step 7 from "
            "memory, 2s after they noticed");
  plan.from_checkpoint = true;
  EXPECT_NE(
      describe_recovery(plan, 5, std::chrono::seconds(2)).find("after step 5 from a checkpoint,"),
      std::string::npos);
}

TEST(RecoveryStory, TellsWhichStepsAreDoneAgain) {
  RecoveryPlan plan{.slots = {0, 1, 2}, .lost = {3}, .from_checkpoint = true, .step = 8};
  EXPECT_EQ(
      describe_recovery(plan, 5, std::chrono::seconds(1)),
      "rank 3 was lost; ranks 0, 1 and 2 go on after step 5 from a checkpoint (steps 6 to 8 are "
      "done again), 1s after they noticed");
  plan.step = 6;
  EXPECT_NE(describe_recovery(plan, 5, std::chrono::seconds(1)).find("(step 6 is done again)"),
            std::string::npos);
}

TEST(RecoveryStory, CountsRanksThatAreTooManyToName) {
  RecoveryPlan plan{.lost = {0, 1}, .leaving = {2, 3}};
  plan.slots.resize(60);
  std::iota(plan.slots.begin(), plan.slots.end(), 4);
  EXPECT_EQ(
      describe_recovery(plan, 9, std::chrono::milliseconds(5)),
      "ranks 0 and 1 were lost; ranks 2 and 3 leave, no replica needs them; 60 ranks go on after "
      "step 9 from memory, 5ms after they noticed");
}

TEST(RecoveryStory, OfLostConnectionsNoRankIsSaidToHaveDied) {
  EXPECT_EQ(describe_recovery({.slots = {0, 1}, .step = 5}, 5, std::chrono::milliseconds(200)),
            "the ranks lost connections to each other and connected again; ranks 0 and 1 go on "
            "after step 5 from memory, 200ms after they noticed");
}

}  // namespace
}  // namespace lockstep::train
