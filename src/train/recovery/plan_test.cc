#include "train/recovery/plan.h"

#include <numeric>

#include <gtest/gtest.h>

namespace lockstep {
namespace {

// So many members in their order, in replicas of so many, ten steps into the training.
Standing one_of(int members, int shards) {
  Standing standing;
  standing.seats.resize(static_cast<std::size_t>(members));
  std::iota(standing.seats.begin(), standing.seats.end(), 0);
  standing.shards = shards;
  standing.decided = standing.optimizer_steps = 10;
  standing.norm = 0.5;
  standing.step = 110;
  standing.decided_before = 10;
  standing.seed = 7;
  standing.cursor = 1000;
  standing.batch = 16;
  return standing;
}

Standings crew(int members, int shards, const std::vector<int>& gone) {
  Standings standings;
  for (int member = 0; member < members; ++member) standings[member] = one_of(members, shards);
  for (int member : gone) standings[member].reset();
  return standings;
}

std::vector<int> seats(int members, int shards, const std::vector<int>& gone) {
  const auto plan = plan_to_shrink(crew(members, shards, gone));
  EXPECT_TRUE(plan) << plan.error().message;
  return plan ? plan->seats : std::vector<int>();
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
  EXPECT_EQ(plan.seat_of(0), std::nullopt);
  EXPECT_EQ(plan.seat_of(3), 1);
  EXPECT_EQ(plan.gone, std::vector{1});
  EXPECT_EQ(plan.leaving, std::vector{0});
  EXPECT_EQ(plan.teller(), 2);
}

TEST(RecoveryPlan, WhoLeftBeforeIsNotAmongTheGone) {
  auto standings = crew(6, 2, {0, 1, 3});
  for (auto& [member, standing] : standings)
    if (standing) standing->seats = {2, 3, 4, 5};  // 1 had died, and 0 fitted nowhere
  const auto plan = plan_to_shrink(standings).value();
  EXPECT_EQ(plan.gone, std::vector{3});
  EXPECT_EQ(plan.leaving, std::vector{2});
  EXPECT_EQ(plan.seats, (std::vector{4, 5}));
}

TEST(RecoveryPlan, AShardThatNobodyHoldsIsNamed) {
  const auto plan = plan_to_shrink(crew(4, 2, {1, 3}));
  ASSERT_FALSE(plan);
  EXPECT_EQ(plan.error().code, Code::not_found);
  EXPECT_NE(plan.error().message.find("shard 1 of 2"), std::string::npos) << plan.error().message;
  auto divided = crew(4, 2, {1});
  for (auto& [member, standing] : divided)
    if (standing) standing->copied = false;
  EXPECT_EQ(plan_to_shrink(divided).error().code, Code::not_found);
}

TEST(RecoveryPlan, WhatNobodyHoldsComesFromStorageForAsManyAsMakeWholeGroups) {
  const auto plan_of = [](int members, int shards, bool copied, const std::vector<int>& gone) {
    auto standings = crew(members, shards, gone);
    for (auto& [member, standing] : standings)
      if (standing) {
        standing->storage = true;
        standing->copied = copied;
      }
    return plan_to_shrink(standings).value();
  };
  const auto zero3 = plan_of(4, 4, true, {3});
  EXPECT_TRUE(zero3.from_storage && zero3.laid_out_anew);
  EXPECT_EQ(zero3.seats, (std::vector{0, 1, 2}));
  EXPECT_EQ(zero3.shards, 3);
  const auto zero1 = plan_of(4, 1, false, {0});
  EXPECT_EQ(zero1.seats, (std::vector{1, 2, 3}));
  EXPECT_EQ(zero1.shards, 1);
  const auto mics = plan_of(6, 2, true, {1, 3, 5});
  EXPECT_EQ(mics.seats, (std::vector{0, 2}));
  EXPECT_EQ(mics.shards, 2);
  EXPECT_EQ(mics.leaving, std::vector{4});
  EXPECT_EQ(plan_of(8, 4, true, {1, 2, 3, 5, 6}).shards, 3);  // one group of all that are left
  EXPECT_FALSE(plan_of(6, 2, true, {1}).from_storage);
}

// Some may have read it, others not.
TEST(RecoveryPlan, AfterADeathWhileStorageWasReadAllReadItAgain) {
  auto standings = crew(4, 2, {3});
  for (auto& [member, standing] : standings)
    if (standing) standing->storage = true;
  EXPECT_FALSE(plan_to_shrink(standings)->from_storage);
  standings[1]->unread = true;
  standings[1]->decided = 7;
  EXPECT_TRUE(plan_to_shrink(standings)->from_storage);
}

TEST(RecoveryPlan, TheLastWholeStepIsTheMostThatAnybodyHasDecided) {
  auto standings = crew(3, 1, {1});
  EXPECT_EQ(plan_to_shrink(standings)->step, 110);
  EXPECT_EQ(plan_to_shrink(standings)->cursor, 1000);
  standings[0]->decided = standings[0]->optimizer_steps = 11;
  standings[0]->norm = 0.7;
  standings[2]->undecided = true;
  const auto plan = plan_to_shrink(standings).value();
  EXPECT_EQ(plan.decided, 11);
  EXPECT_EQ(plan.norm, 0.7);
  EXPECT_EQ(plan.step, 111);
  EXPECT_EQ(plan.cursor, 1016);
}

TEST(RecoveryPlan, StatesThatCannotBeMadeOneAreRefused) {
  auto standings = crew(3, 1, {1});
  standings[0]->decided = 11;  // and member 2 has no complete gradients
  EXPECT_EQ(plan_to_shrink(standings).error().code, Code::internal);
  standings[2]->undecided = true;
  standings[0]->decided = 12;
  EXPECT_EQ(plan_to_shrink(standings).error().code, Code::internal);
}

TEST(RecoveryPlan, NewcomersTakeTheSeatsOfTheGoneAndTheStateOfALivingReplica) {
  auto standings = crew(4, 2, {});
  standings[1] = Standing{.newcomer = true};
  const auto plan = plan_to_refill(standings).value();
  EXPECT_EQ(plan.seats, (std::vector{0, 1, 2, 3}));
  EXPECT_EQ(plan.newcomers, std::vector{1});
  EXPECT_FALSE(plan.from_storage);
  EXPECT_EQ(plan.replicas_of(0).holding, (std::vector{0, 1}));
  EXPECT_TRUE(plan.replicas_of(0).lacking.empty());
  EXPECT_EQ(plan.replicas_of(1).holding, std::vector{1});
  EXPECT_EQ(plan.replicas_of(1).lacking, std::vector{0});
  EXPECT_EQ(plan.teller(), 0);
  standings[3] = Standing{.newcomer = true};
  EXPECT_EQ(plan_to_refill(standings).error().code, Code::not_found);
  for (const int member : {0, 2}) standings[member]->storage = true;
  EXPECT_TRUE(plan_to_refill(standings)->from_storage);
}

// As the members on these seats came in place of others.
RecoveryPlan refilled(int seats, int shards, const std::vector<int>& newcomers) {
  RecoveryPlan plan;
  plan.seats.resize(static_cast<std::size_t>(seats));
  std::iota(plan.seats.begin(), plan.seats.end(), 0);
  plan.shards = shards;
  plan.newcomers = newcomers;
  return plan;
}

using Senders = std::map<int, int>;

TEST(RecoveryPlan, ANewcomerGetsItsStateWithinItsHostIfSomebodyThereHoldsIt) {
  const std::vector<int> pairs{0, 0, 1, 1};
  EXPECT_EQ(refilled(4, 1, {2}).senders(pairs), (Senders{{2, 3}}));
  EXPECT_EQ(refilled(4, 1, {0, 2}).senders(pairs), (Senders{{0, 1}, {2, 3}}));
  // Of the two that could, each has one; where only one could, it serves both.
  EXPECT_EQ(refilled(4, 1, {0, 1}).senders({0, 0, 0, 0}), (Senders{{0, 2}, {1, 3}}));
  EXPECT_EQ(refilled(4, 1, {0, 1}).senders({0, 0, 0, 1}), (Senders{{0, 2}, {1, 2}}));
}

TEST(RecoveryPlan, OthersGetItFromTheHostWhoseWireServesTheFewest) {
  // Both ranks of host 0 are gone: the two that stand in for them get it over two wires.
  EXPECT_EQ(refilled(6, 1, {0, 1}).senders({0, 0, 1, 1, 2, 2}), (Senders{{0, 2}, {1, 4}}));
  // Of a host that must serve two, another rank serves the second.
  EXPECT_EQ(refilled(6, 1, {0, 1, 2}).senders({0, 0, 0, 1, 1, 2}),
            (Senders{{0, 3}, {1, 5}, {2, 4}}));
  // Who serves within its host is taken later, of those whose wires are alike.
  EXPECT_EQ(refilled(5, 1, {0, 1}).senders({0, 1, 1, 1, 1}), (Senders{{0, 3}, {1, 2}}));
}

TEST(RecoveryPlan, TheWiresAreSharedOutOverAllShards) {
  // A replica of two shards a host; both ranks of host 0 are gone. Host 1 serves the first.
  EXPECT_EQ(refilled(6, 2, {0, 1}).senders({0, 0, 1, 1, 2, 2}), (Senders{{0, 2}, {1, 5}}));
}

TEST(RecoveryPlan, WhatMoreLackThanHoldNobodySendsToOneAlone) {
  EXPECT_TRUE(refilled(4, 1, {0, 1, 2}).senders({0, 0, 0, 0}).empty());
  // Of shard 0 all but one; of shard 1 one.
  EXPECT_EQ(refilled(6, 2, {0, 2, 3}).senders({0, 0, 0, 1, 1, 1}), (Senders{{3, 5}}));
}

TEST(RecoveryPlan, WhatAMemberTellsIsUnderstoodToTheBit) {
  auto standing = one_of(4, 2);
  standing.norm = 0.1 + 0.2;
  const auto read = standing_in(words_of(standing)).value();
  EXPECT_EQ(read.norm, standing.norm);
  EXPECT_EQ(read.seats, standing.seats);
  EXPECT_EQ(read.cursor, standing.cursor);
  EXPECT_FALSE(standing_in("{}x"));
}

}  // namespace
}  // namespace lockstep
