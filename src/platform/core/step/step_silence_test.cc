// Agents that are silent, or that could not reach the daemon while it was away.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "platform/core/step/step_world_for_test.h"

namespace lockstep::step {
namespace {

using std::chrono::minutes;
using std::chrono::seconds;
using ::testing::AllOf;
using ::testing::HasSubstr;
using testing_world::agent_gone;
using testing_world::node_gone;
using testing_world::spec_of;

class StepSilenceTest : public testing_world::StepTest {};

TEST_F(StepSilenceTest, ASilentAgentLosesItsNodeAndIsFenced) {
  const model::RunId run = world.submit(spec_of(2, 1));
  world.all_running(run);
  world.now += minutes(5);
  world.apply_event_ok(world.running(world.node(run, 0)));
  world.apply_event_ok(model::Tick{});
  EXPECT_EQ(world.attempt(run).cause, model::Cause::node_lost);
  EXPECT_THAT(world.run(run).reason,
              AllOf(HasSubstr("node 1 on host b"), HasSubstr("silent"), HasSubstr("5m")));
  EXPECT_EQ(world.effects.back(), model::Effect(model::KillNode{world.node(run, 1)}));
  EXPECT_EQ(command(run, 1), model::CommandKind::leave);
  world.apply_event_ok(world.running(world.node(run, 1)));  // it comes back too late
  EXPECT_EQ(world.state.nodes.at(world.node(run, 1)).state, model::NodeState::lost);
}

TEST_F(StepSilenceTest, WhenALostNodesProcessesAreGoneItsRanksCountAsLostAndAsNobodysFault) {
  const model::RunId run = world.submit(spec_of(2, 1));
  world.all_running(run);
  const model::NodeId lost = world.node(run, 1);
  ASSERT_EQ(world.state.nodes.at(lost).ranks.size(), 1u);
  world.now += minutes(5);
  world.apply_event_ok(world.running(world.node(run, 0)));
  world.apply_event_ok(model::Tick{});
  EXPECT_EQ(world.state.nodes.at(lost).ranks[0].state, model::RankState::running);  // it may be
  world.apply_event_ok(node_gone(lost));
  EXPECT_EQ(world.state.nodes.at(lost).ranks[0].state, model::RankState::lost);
  EXPECT_EQ(world.attempt(run).cause, model::Cause::node_lost);
}

TEST_F(StepSilenceTest, NobodyCountsAsSilentForTheTimeThatTheDaemonWasAway) {
  const model::RunId run = world.submit(spec_of(1, 1));
  world.all_running(run);
  const model::NodeId node = world.node(run, 0);
  world.now += minutes(40);
  world.apply_event_ok(model::DaemonStarted{});
  const model::Tick tick{.listening_since = world.now};
  world.now += seconds(29);
  world.apply_event_ok(tick);
  EXPECT_FALSE(world.state.nodes.at(node).unreachable_since);
  world.now += seconds(1);
  world.apply_event_ok(tick);
  EXPECT_EQ(world.state.nodes.at(node).unreachable_since, tick.listening_since);
  world.now += minutes(4);
  world.apply_event_ok(tick);
  EXPECT_EQ(world.attempt(run).state, model::AttemptState::running);
  world.now += seconds(30);
  world.apply_event_ok(tick);
  EXPECT_EQ(world.attempt(run).cause, model::Cause::node_lost);
}

TEST_F(StepSilenceTest, AClockThatWasSetBackHidesNoSilence) {
  const model::RunId run = world.submit(spec_of(1, 1));
  world.all_running(run);
  world.now -= std::chrono::hours(1);
  world.apply_event_ok(model::ClockChanged{{"another boot", {}}});
  world.apply_event_ok(model::DaemonStarted{});
  world.advance_time(minutes(5));
  EXPECT_EQ(world.attempt(run).cause, model::Cause::node_lost);
}

TEST_F(StepSilenceTest, RanksThatEndedInTimeAreHeardBeforeTheTimeOutAfterTheDaemonWasAway) {
  auto spec = spec_of(1, 1);
  spec.timeout = minutes(1);
  const model::RunId run = world.submit(spec);
  world.all_running(run);
  const auto word = world.ended(world.node(run, 0), model::RankState::exited, 0);
  world.now += minutes(2);
  world.apply_event_ok(model::DaemonStarted{});
  const model::Tick first{.listening_since = world.now};
  world.apply_event_ok(first);
  world.apply_event_ok(word);
  EXPECT_EQ(world.attempt(run).cause, model::Cause::ok);
}

TEST_F(StepSilenceTest, ATimeOutThatPassedWhileTheDaemonWasAwayIsFoundSoonAfter) {
  auto spec = spec_of(1, 1);
  spec.timeout = minutes(1);
  const model::RunId run = world.submit(spec);
  world.all_running(run);
  world.now += minutes(2);
  world.apply_event_ok(model::DaemonStarted{});
  const model::Tick tick{.listening_since = world.now};
  world.apply_event_ok(world.running(world.node(run, 0)));
  world.now += seconds(15);
  world.apply_event_ok(tick);
  EXPECT_EQ(world.attempt(run).cause, model::Cause::timeout);
}

TEST_F(StepSilenceTest, TheFirstWordAfterABreakIsKeptHoweverShortTheBreakWas) {
  auto spec = spec_of(1, 1);
  spec.timeout = minutes(1);
  const model::RunId run = world.submit(spec);
  world.all_running(run);
  world.now += seconds(57);
  world.apply_event_ok(world.running(world.node(run, 0)));
  world.now += seconds(1);
  world.apply_event_ok(model::DaemonStarted{});
  const model::Tick tick{.listening_since = world.now};
  world.now += seconds(1);
  auto word = world.running(world.node(run, 0));
  word.listening_since = tick.listening_since;
  world.apply_event_ok(word);
  world.now += seconds(15);
  world.apply_event_ok(tick);
  EXPECT_EQ(world.attempt(run).cause, model::Cause::timeout);
}

TEST_F(StepSilenceTest,
       AnAgentIsBelievedThatRanksRanForTheirTimeThoughNobodyCouldBeToldThatTheyDid) {
  auto spec = spec_of(1, 1);
  spec.timeout = minutes(1);
  const model::RunId run = world.submit(spec);
  world.all_ready(run);
  world.now += seconds(61);
  world.apply_event_ok(model::DaemonStarted{});
  auto word = world.ended(world.node(run, 0), model::RankState::killed, 15, true);
  word.state = model::NodeState::stopping;
  word.stop_reason = model::StopReason::timeout;
  world.apply_event_ok(word);
  EXPECT_EQ(world.attempt(run).cause, model::Cause::timeout);
}

TEST_F(StepSilenceTest, TheStartOfRanksMayTakeLongerByTheTimeThatTheDaemonWasAway) {
  const model::RunId run = world.submit(spec_of(2, 1));
  world.all_ready(run);
  world.now += minutes(10);
  world.apply_event_ok(model::DaemonStarted{});
  world.apply_event_ok(model::Tick{.listening_since = world.now});
  EXPECT_EQ(world.attempt(run).state, model::AttemptState::launching);
}

TEST_F(StepSilenceTest, ANodeThatDiedWithTheDaemonHidesThePeersThatFailedBecauseOfIt) {
  const model::RunId run = world.submit(spec_of(2, 1));
  world.all_running(run);
  world.now += seconds(1);
  world.apply_event_ok(world.ended(world.node(run, 0), model::RankState::exited, 1));
  world.now += seconds(1);
  world.apply_event_ok(model::DaemonStarted{});
  world.apply_event_ok(node_gone(world.node(run, 1)));
  EXPECT_EQ(world.attempt(run).cause, model::Cause::node_lost);
}

TEST_F(StepSilenceTest, WhoIsNotHeardAfterABreakIsLostAndNotTimedOut) {
  auto spec = spec_of(1, 1);
  spec.timeout = minutes(1);
  const model::RunId run = world.submit(spec);
  world.all_running(run);
  world.now += std::chrono::hours(2);
  world.apply_event_ok(model::DaemonStarted{});
  const model::Tick tick{.listening_since = world.now};
  for (int i = 0; i < 10; ++i) {
    EXPECT_NE(world.attempt(run).cause, model::Cause::timeout);
    world.now += seconds(30);
    world.apply_event_ok(tick);
  }
  EXPECT_EQ(world.attempt(run).cause, model::Cause::node_lost);
  world.all_terminated(run);
  EXPECT_EQ(world.run(run).epoch, 2);
  EXPECT_EQ(world.run(run).time_used, Duration(0));  // its last heartbeat was at its start
}

TEST_F(StepSilenceTest, OnlyTheTimeThatRanksRanIsChargedThoughTheirEndIsHeardMuchLater) {
  auto spec = spec_of(2, 1);
  spec.timeout = std::chrono::hours(1);
  const model::RunId run = world.submit(spec);
  world.all_running(run);
  world.now += seconds(10);
  const auto word = world.ended(world.node(run, 0), model::RankState::killed, 9);
  world.now += std::chrono::hours(2);
  world.apply_event_ok(model::DaemonStarted{});
  world.apply_event_ok(word);
  world.apply_event_ok(world.ended(world.node(run, 1), model::RankState::killed, 15, true));
  world.all_terminated(run);
  EXPECT_EQ(world.run(run).epoch, 2);
  EXPECT_EQ(world.run(run).time_used, Duration(seconds(10)));
}

TEST_F(StepSilenceTest, ANodeThatStoppedOnItsOwnWhileTheDaemonWasAwayHasNotReachedItsTimeOut) {
  auto spec = spec_of(1, 1);
  spec.timeout = std::chrono::hours(1);
  const model::RunId run = world.submit(spec);
  world.all_running(run);
  world.now += seconds(10);
  auto word = world.ended(world.node(run, 0), model::RankState::killed, 15, true);
  word.state = model::NodeState::stopping;
  word.message = "somebody ended the agent by signal 15";
  world.now += std::chrono::hours(2);
  world.apply_event_ok(model::DaemonStarted{});
  world.apply_event_ok(word);
  EXPECT_EQ(world.attempt(run).cause, model::Cause::node_lost);
  world.all_terminated(run);
  EXPECT_EQ(world.run(run).time_used, Duration(seconds(10)));
}

TEST_F(StepSilenceTest, ATimeOutThatAnAgentKeptIsTheCauseThoughAPeerThatFailedOfItIsHeardFirst) {
  auto spec = spec_of(2, 1);
  spec.timeout = minutes(1);
  spec.retries = 1;
  const model::RunId run = world.submit(spec);
  world.all_running(run);
  world.now += seconds(60);
  auto word = world.ended(world.node(run, 0), model::RankState::killed, 15, true);
  word.state = model::NodeState::stopping;
  word.stop_reason = model::StopReason::timeout;
  world.now += seconds(1);
  const auto echo = world.ended(world.node(run, 1), model::RankState::exited, 1);
  world.now += std::chrono::hours(2);
  world.apply_event_ok(model::DaemonStarted{});
  world.apply_event_ok(echo);
  EXPECT_EQ(world.attempt(run).cause, model::Cause::user_exit);
  world.apply_event_ok(word);
  EXPECT_EQ(world.attempt(run).cause, model::Cause::timeout);
  world.all_terminated(run);
  EXPECT_EQ(world.run(run).state, model::RunState::timed_out);
  EXPECT_THAT(world.run(run).reason, AllOf(HasSubstr("time-out"), HasSubstr("1m")));
  EXPECT_EQ(world.run(run).user_exits, 0);
}

TEST_F(StepSilenceTest, APeerThatFailedAfterAnAgentEndedItsRanksBeforeTheirTimeIsToBlame) {
  const model::RunId run = world.submit(spec_of(2, 1));
  world.all_running(run);
  world.now += seconds(60);
  const auto word = world.ended(world.node(run, 0), model::RankState::killed, 15, true);
  world.now += seconds(1);
  world.apply_event_ok(world.ended(world.node(run, 1), model::RankState::exited, 1));
  world.apply_event_ok(word);  // by a clock that is behind
  EXPECT_EQ(world.attempt(run).cause, model::Cause::user_exit);
}

TEST_F(StepSilenceTest, WhatAnAgentThatDiedLeftIsKilledWithoutWaitingForItsSilence) {
  const model::RunId run = world.submit(spec_of(2, 1));
  const model::NodeId node = world.node(run, 1);
  world.apply_event_ok(agent_gone(node));  // no heartbeat yet: it may be about to start
  EXPECT_EQ(world.attempt(run).state, model::AttemptState::reserved);
  world.all_running(run);
  world.apply_event_ok(agent_gone(node));
  EXPECT_EQ(world.attempt(run).cause, model::Cause::node_lost);
  EXPECT_THAT(world.run(run).reason,
              AllOf(HasSubstr("agent of node 1 on host b"), HasSubstr("ended")));
  EXPECT_EQ(world.effects.back(), model::Effect(model::KillNode{node}));
  world.apply_event_ok(agent_gone(node));
  EXPECT_EQ(world.count<model::KillNode>(), 1);
  world.now += seconds(5);
  world.apply_event_ok(agent_gone(node));
  EXPECT_EQ(world.count<model::KillNode>(), 2);
}

TEST_F(StepSilenceTest, AnAgentThatLeftProcessesWhenAllWasToldIsNoLoss) {
  const model::RunId run = world.submit(spec_of(1, 1));
  world.all_running(run);
  world.apply_event_ok(world.ended(world.node(run, 0), model::RankState::exited, 0));
  world.apply_event_ok(agent_gone(world.node(run, 0)));
  EXPECT_EQ(world.attempt(run).cause, model::Cause::ok);
  EXPECT_EQ(world.count<model::KillNode>(), 1);
  world.all_terminated(run);
  EXPECT_EQ(world.run(run).state, model::RunState::succeeded);
}

}  // namespace
}  // namespace lockstep::step
