#include "train/recovery/recovery_plan.h"

#include <numeric>

#include <gtest/gtest.h>

namespace lockstep::train {
namespace {

// This many members in their order, in replicas of `shards`, ten steps into the training.
MemberState one_of(int members, int shards) {
  MemberState standing;
  standing.slots.resize(static_cast<std::size_t>(members));
  std::iota(standing.slots.begin(), standing.slots.end(), 0);
  standing.shards = shards;
  standing.decided_steps = standing.optimizer_steps = 10;
  standing.norm = 0.5;
  standing.step = 110;
  standing.decided_steps_before = 10;
  standing.seed = 7;
  standing.cursor = 1000;
  standing.global_batch = 16;
  return standing;
}

MemberStates crew(int members, int shards, const std::vector<int>& gone) {
  MemberStates standings;
  for (int member = 0; member < members; ++member) standings[member] = one_of(members, shards);
  for (int member : gone) standings[member].reset();
  return standings;
}

std::vector<int> seats(int members, int shards, const std::vector<int>& gone) {
  const auto plan = plan_to_shrink(crew(members, shards, gone));
  EXPECT_TRUE(plan) << plan.error().message;
  return plan ? plan->slots : std::vector<int>();
}

TEST(RecoveryPlan, ReplicasOfOneRankCloseTheirRanks) {
  EXPECT_EQ(seats(4, 1, {1}), (std::vector{0, 2, 3}));
  EXPECT_EQ(seats(4, 1, {0, 1, 2}), (std::vector{3}));
}

TEST(RecoveryPlan, WholeReplicasStayTogetherAndOthersAreMadeOfTheRest) {
  EXPECT_EQ(seats(4, 2, {1}), (std::vector{2, 3}));
  EXPECT_EQ(seats(4, 2, {1, 2}), (std::vector{0, 3}));
  EXPECT_EQ(seats(6, 2, {1, 4}), (std::vector{2, 3, 0, 5}));
  EXPECT_EQ(seats(6, 3, {0}), (std::vector{3, 4, 5}));
}

TEST(RecoveryPlan, WhoFitsIntoNoReplicaHasNoSeat) {
  const auto plan = plan_to_shrink(crew(4, 2, {1})).value();
  EXPECT_EQ(plan.slot_of(0), std::nullopt);
  EXPECT_EQ(plan.slot_of(3), 1);
  EXPECT_EQ(plan.lost, std::vector{1});
  EXPECT_EQ(plan.leaving, std::vector{0});
  EXPECT_EQ(plan.reporting_member(), 2);
}

TEST(RecoveryPlan, WhoLeftBeforeIsNotAmongTheGone) {
  auto standings = crew(6, 2, {0, 1, 3});
  for (auto& [member, standing] : standings)
    if (standing) standing->slots = {2, 3, 4, 5};  // 1 had died, and 0 fitted into no replica
  const auto plan = plan_to_shrink(standings).value();
  EXPECT_EQ(plan.lost, std::vector{3});
  EXPECT_EQ(plan.leaving, std::vector{2});
  EXPECT_EQ(plan.slots, (std::vector{4, 5}));
}

TEST(RecoveryPlan, AShardThatNobodyHoldsIsNamed) {
  const auto plan = plan_to_shrink(crew(4, 2, {1, 3}));
  ASSERT_FALSE(plan);
  EXPECT_EQ(plan.error().code, Code::not_found);
  EXPECT_NE(plan.error().message.find("shard 1 of 2"), std::string::npos) << plan.error().message;
  auto divided = crew(4, 2, {1});
  for (auto& [member, standing] : divided)
    if (standing) standing->optimizer_replicated = false;
  EXPECT_EQ(plan_to_shrink(divided).error().code, Code::not_found);
}

TEST(RecoveryPlan, WhatNobodyHoldsComesFromStorageForAsManyAsMakeWholeGroups) {
  const auto plan_of = [](int members, int shards, bool copied, const std::vector<int>& gone) {
    auto standings = crew(members, shards, gone);
    for (auto& [member, standing] : standings)
      if (standing) {
        standing->has_checkpoints = true;
        standing->optimizer_replicated = copied;
      }
    return plan_to_shrink(standings).value();
  };
  const auto zero3 = plan_of(4, 4, true, {3});
  EXPECT_TRUE(zero3.from_checkpoint && zero3.reshards);
  EXPECT_EQ(zero3.slots, (std::vector{0, 1, 2}));
  EXPECT_EQ(zero3.shards, 3);
  const auto zero1 = plan_of(4, 1, false, {0});
  EXPECT_EQ(zero1.slots, (std::vector{1, 2, 3}));
  EXPECT_EQ(zero1.shards, 1);
  const auto mics = plan_of(6, 2, true, {1, 3, 5});
  EXPECT_EQ(mics.slots, (std::vector{0, 2}));
  EXPECT_EQ(mics.shards, 2);
  EXPECT_EQ(mics.leaving, std::vector{4});
  EXPECT_EQ(plan_of(8, 4, true, {1, 2, 3, 5, 6}).shards, 3);  // one group of all remaining
  EXPECT_FALSE(plan_of(6, 2, true, {1}).from_checkpoint);
}

// Some may have read it, others not.
TEST(RecoveryPlan, AfterADeathWhileStorageWasReadAllReadItAgain) {
  auto standings = crew(4, 2, {3});
  for (auto& [member, standing] : standings)
    if (standing) standing->has_checkpoints = true;
  EXPECT_FALSE(plan_to_shrink(standings)->from_checkpoint);
  standings[1]->needs_checkpoint = true;
  standings[1]->decided_steps = 7;
  EXPECT_TRUE(plan_to_shrink(standings)->from_checkpoint);
}

TEST(RecoveryPlan, TheLastWholeStepIsTheMostThatAnybodyHasDecided) {
  auto standings = crew(3, 1, {1});
  EXPECT_EQ(plan_to_shrink(standings)->step, 110);
  EXPECT_EQ(plan_to_shrink(standings)->cursor, 1000);
  standings[0]->decided_steps = standings[0]->optimizer_steps = 11;
  standings[0]->norm = 0.7;
  standings[2]->awaits_decision = true;
  const auto plan = plan_to_shrink(standings).value();
  EXPECT_EQ(plan.decided_steps, 11);
  EXPECT_EQ(plan.norm, 0.7);
  EXPECT_EQ(plan.step, 111);
  EXPECT_EQ(plan.cursor, 1016);
}

TEST(RecoveryPlan, StatesThatCannotBeMadeOneAreRefused) {
  auto standings = crew(3, 1, {1});
  standings[0]->decided_steps = 11;  // and member 2 has no complete gradients
  EXPECT_EQ(plan_to_shrink(standings).error().code, Code::internal);
  standings[2]->awaits_decision = true;
  standings[0]->decided_steps = 12;
  EXPECT_EQ(plan_to_shrink(standings).error().code, Code::internal);
}

TEST(RecoveryPlan, NewcomersTakeTheSeatsOfTheGoneAndTheStateOfALivingReplica) {
  auto standings = crew(4, 2, {});
  standings[1] = MemberState{.is_replacement = true};
  const auto plan = plan_to_replace(standings).value();
  EXPECT_EQ(plan.slots, (std::vector{0, 1, 2, 3}));
  EXPECT_EQ(plan.replacements, std::vector{1});
  EXPECT_FALSE(plan.from_checkpoint);
  EXPECT_EQ(plan.replicas_of(0).with_state, (std::vector{0, 1}));
  EXPECT_TRUE(plan.replicas_of(0).without_state.empty());
  EXPECT_EQ(plan.replicas_of(1).with_state, std::vector{1});
  EXPECT_EQ(plan.replicas_of(1).without_state, std::vector{0});
  EXPECT_EQ(plan.reporting_member(), 0);
  standings[3] = MemberState{.is_replacement = true};
  EXPECT_EQ(plan_to_replace(standings).error().code, Code::not_found);
  for (const int member : {0, 2}) standings[member]->has_checkpoints = true;
  EXPECT_TRUE(plan_to_replace(standings)->from_checkpoint);
}

// The members on these slots are replacements.
RecoveryPlan refilled(int seats, int shards, const std::vector<int>& newcomers) {
  RecoveryPlan plan;
  plan.slots.resize(static_cast<std::size_t>(seats));
  std::iota(plan.slots.begin(), plan.slots.end(), 0);
  plan.shards = shards;
  plan.replacements = newcomers;
  return plan;
}

using Senders = std::map<int, int>;

TEST(RecoveryPlan, ANewcomerGetsItsStateWithinItsHostIfSomebodyThereHoldsIt) {
  const std::vector<int> pairs{0, 0, 1, 1};
  EXPECT_EQ(refilled(4, 1, {2}).senders(pairs), (Senders{{2, 3}}));
  EXPECT_EQ(refilled(4, 1, {0, 2}).senders(pairs), (Senders{{0, 1}, {2, 3}}));
  // Each of the two possible senders gets one; if only one is possible, it serves both.
  EXPECT_EQ(refilled(4, 1, {0, 1}).senders({0, 0, 0, 0}), (Senders{{0, 2}, {1, 3}}));
  EXPECT_EQ(refilled(4, 1, {0, 1}).senders({0, 0, 0, 1}), (Senders{{0, 2}, {1, 2}}));
}

TEST(RecoveryPlan, OthersGetItFromTheHostWhoseWireServesTheFewest) {
  // Both ranks of host 0 are gone: their two replacements get the state over two links.
  EXPECT_EQ(refilled(6, 1, {0, 1}).senders({0, 0, 1, 1, 2, 2}), (Senders{{0, 2}, {1, 4}}));
  // If a host must serve two, another rank of it serves the second.
  EXPECT_EQ(refilled(6, 1, {0, 1, 2}).senders({0, 0, 0, 1, 1, 2}),
            (Senders{{0, 3}, {1, 5}, {2, 4}}));
  // A rank that already serves within its host is chosen later than its equals.
  EXPECT_EQ(refilled(5, 1, {0, 1}).senders({0, 1, 1, 1, 1}), (Senders{{0, 3}, {1, 2}}));
}

TEST(RecoveryPlan, TheWiresAreSharedOutOverAllShards) {
  // A replica of two shards a host; both ranks of host 0 are gone. Host 1 serves the first.
  EXPECT_EQ(refilled(6, 2, {0, 1}).senders({0, 0, 1, 1, 2, 2}), (Senders{{0, 2}, {1, 5}}));
}

TEST(RecoveryPlan, WhatMoreLackThanHoldNobodySendsToOneAlone) {
  EXPECT_TRUE(refilled(4, 1, {0, 1, 2}).senders({0, 0, 0, 0}).empty());
  // All but one lack shard 0; one lacks shard 1.
  EXPECT_EQ(refilled(6, 2, {0, 2, 3}).senders({0, 0, 0, 1, 1, 1}), (Senders{{3, 5}}));
}

TEST(RecoveryPlan, WhatAMemberTellsIsUnderstoodToTheBit) {
  auto standing = one_of(4, 2);
  standing.norm = 0.1 + 0.2;
  const auto read = parse_member_state(words_of(standing)).value();
  EXPECT_EQ(read.norm, standing.norm);
  EXPECT_EQ(read.slots, standing.slots);
  EXPECT_EQ(read.cursor, standing.cursor);
  EXPECT_FALSE(parse_member_state("{}x"));
}

}  // namespace
}  // namespace lockstep::train
