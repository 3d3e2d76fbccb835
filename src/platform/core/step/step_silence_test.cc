// Agents that are not heard, or could not be while the daemon was away.
#include <gtest/gtest.h>

#include "platform/core/step/step_world_for_test.h"

namespace lockstep {
namespace {

using std::chrono::seconds;
using testing_world::spec_of;

class StepSilenceTest : public testing_world::StepTest {};

TEST_F(StepSilenceTest, ASilentAgentLosesItsNodeAndIsFenced) {
  const RunId run = world.submit(spec_of(2, 1));
  world.all_running(run);
  world.now += seconds(29);
  world.must(world.running(world.node(run, 0)));
  world.pass_time(seconds(1));
  EXPECT_EQ(world.attempt(run).cause, Cause::node_lost);
  EXPECT_EQ(world.run(run).reason, "the agent of node 1 on host b was silent for 30s");
  EXPECT_EQ(world.effects.back(), Effect(KillNode{world.node(run, 1)}));
  EXPECT_EQ(command(run, 1), CommandKind::leave);
  world.must(world.running(world.node(run, 1)));  // it comes back too late
  EXPECT_EQ(world.state.nodes.at(world.node(run, 1)).state, NodeState::lost);
}

TEST_F(StepSilenceTest, WhenALostNodesProcessesAreGoneItsRanksCountAsLostAndAsNobodysFault) {
  const RunId run = world.submit(spec_of(2, 1));
  world.all_running(run);
  const NodeId lost = world.node(run, 1);
  ASSERT_EQ(world.state.nodes.at(lost).ranks.size(), 1u);
  world.now += seconds(29);
  world.must(world.running(world.node(run, 0)));
  world.pass_time(seconds(1));
  EXPECT_EQ(world.state.nodes.at(lost).ranks[0].state, RankState::running);  // it may be
  world.must(NodeGone{lost});
  EXPECT_EQ(world.state.nodes.at(lost).ranks[0].state, RankState::lost);
  EXPECT_EQ(world.attempt(run).cause, Cause::node_lost);
}

TEST_F(StepSilenceTest, NobodyCountsAsSilentForTheTimeThatTheDaemonWasAway) {
  const RunId run = world.submit(spec_of(2, 1));
  world.all_running(run);
  world.now += std::chrono::minutes(10);
  world.must(DaemonStarted{});
  const Tick tick{.listening_since = world.now};
  world.now += seconds(29);
  world.must(tick);
  EXPECT_EQ(world.attempt(run).state, AttemptState::running);
  world.now += seconds(1);
  world.must(tick);
  EXPECT_EQ(world.attempt(run).cause, Cause::node_lost);
}

TEST_F(StepSilenceTest, AClockThatWasSetBackHidesNoSilence) {
  const RunId run = world.submit(spec_of(2, 1));
  world.all_running(run);
  world.now -= std::chrono::hours(1);
  world.must(ClockRead{{"another boot", {}}});
  world.must(DaemonStarted{});
  world.pass_time(seconds(30));
  EXPECT_EQ(world.attempt(run).cause, Cause::node_lost);
}

TEST_F(StepSilenceTest, RanksThatEndedInTimeAreHeardBeforeTheTimeOutAfterTheDaemonWasAway) {
  auto spec = spec_of(1, 1);
  spec.timeout = std::chrono::minutes(1);
  const RunId run = world.submit(spec);
  world.all_running(run);
  const auto word = world.ended(world.node(run, 0), RankState::exited, 0);
  world.now += std::chrono::minutes(2);
  world.must(DaemonStarted{});
  const Tick first{.listening_since = world.now};
  world.must(first);
  world.must(word);
  EXPECT_EQ(world.attempt(run).cause, Cause::ok);
}

TEST_F(StepSilenceTest, ATimeOutThatPassedWhileTheDaemonWasAwayIsFoundSoonAfter) {
  auto spec = spec_of(1, 1);
  spec.timeout = std::chrono::minutes(1);
  const RunId run = world.submit(spec);
  world.all_running(run);
  world.now += std::chrono::minutes(2);
  world.must(DaemonStarted{});
  const Tick tick{.listening_since = world.now};
  world.must(world.running(world.node(run, 0)));
  world.now += seconds(15);
  world.must(tick);
  EXPECT_EQ(world.attempt(run).cause, Cause::timeout);
}

TEST_F(StepSilenceTest, TheFirstWordAfterABreakIsKeptHoweverShortTheBreakWas) {
  auto spec = spec_of(1, 1);
  spec.timeout = std::chrono::minutes(1);
  const RunId run = world.submit(spec);
  world.all_running(run);
  world.now += seconds(57);
  world.must(world.running(world.node(run, 0)));
  world.now += seconds(1);
  world.must(DaemonStarted{});
  const Tick tick{.listening_since = world.now};
  world.now += seconds(1);
  auto word = world.running(world.node(run, 0));
  word.listening_since = tick.listening_since;
  world.must(word);
  world.now += seconds(15);
  world.must(tick);
  EXPECT_EQ(world.attempt(run).cause, Cause::timeout);
}

TEST_F(StepSilenceTest,
       AnAgentIsBelievedThatRanksRanForTheirTimeThoughNobodyCouldBeToldThatTheyDid) {
  auto spec = spec_of(1, 1);
  spec.timeout = std::chrono::minutes(1);
  const RunId run = world.submit(spec);
  world.all_ready(run);
  world.now += seconds(61);
  world.must(DaemonStarted{});
  auto word = world.ended(world.node(run, 0), RankState::killed, 15, true);
  word.state = NodeState::stopping;
  word.stop_reason = StopReason::timeout;
  world.must(word);
  EXPECT_EQ(world.attempt(run).cause, Cause::timeout);
}

TEST_F(StepSilenceTest, TheStartOfRanksMayTakeLongerByTheTimeThatTheDaemonWasAway) {
  const RunId run = world.submit(spec_of(2, 1));
  world.all_ready(run);
  world.now += std::chrono::minutes(10);
  world.must(DaemonStarted{});
  world.must(Tick{.listening_since = world.now});
  EXPECT_EQ(world.attempt(run).state, AttemptState::launching);
}

TEST_F(StepSilenceTest, ANodeThatDiedWithTheDaemonHidesThePeersThatFailedBecauseOfIt) {
  const RunId run = world.submit(spec_of(2, 1));
  world.all_running(run);
  world.now += seconds(1);
  world.must(world.ended(world.node(run, 0), RankState::exited, 1));
  world.now += seconds(1);
  world.must(DaemonStarted{});
  world.must(NodeGone{world.node(run, 1)});
  EXPECT_EQ(world.attempt(run).cause, Cause::node_lost);
}

TEST_F(StepSilenceTest, WhoIsNotHeardAfterABreakIsLostAndNotTimedOut) {
  auto spec = spec_of(1, 1);
  spec.timeout = std::chrono::minutes(1);
  const RunId run = world.submit(spec);
  world.all_running(run);
  world.now += std::chrono::hours(2);
  world.must(DaemonStarted{});
  const Tick tick{.listening_since = world.now};
  world.now += seconds(30);
  world.must(tick);
  EXPECT_EQ(world.attempt(run).cause, Cause::node_lost);
  world.all_gone(run);
  EXPECT_EQ(world.run(run).epoch, 2);
  EXPECT_EQ(world.run(run).charged, Duration(0));  // it was last heard when it began
}

TEST_F(StepSilenceTest, OnlyTheTimeThatRanksRanIsChargedThoughTheirEndIsHeardMuchLater) {
  auto spec = spec_of(2, 1);
  spec.timeout = std::chrono::hours(1);
  const RunId run = world.submit(spec);
  world.all_running(run);
  world.now += seconds(10);
  const auto word = world.ended(world.node(run, 0), RankState::killed, 9);
  world.now += std::chrono::hours(2);
  world.must(DaemonStarted{});
  world.must(word);
  world.must(world.ended(world.node(run, 1), RankState::killed, 15, true));
  world.all_gone(run);
  EXPECT_EQ(world.run(run).epoch, 2);
  EXPECT_EQ(world.run(run).charged, Duration(seconds(10)));
}

TEST_F(StepSilenceTest, ANodeThatStoppedOnItsOwnWhileTheDaemonWasAwayHasNotReachedItsTimeOut) {
  auto spec = spec_of(1, 1);
  spec.timeout = std::chrono::hours(1);
  const RunId run = world.submit(spec);
  world.all_running(run);
  world.now += seconds(10);
  auto word = world.ended(world.node(run, 0), RankState::killed, 15, true);
  word.state = NodeState::stopping;
  word.message = "somebody ended the agent by signal 15";
  world.now += std::chrono::hours(2);
  world.must(DaemonStarted{});
  world.must(word);
  EXPECT_EQ(world.attempt(run).cause, Cause::node_lost);
  world.all_gone(run);
  EXPECT_EQ(world.run(run).charged, Duration(seconds(10)));
}

TEST_F(StepSilenceTest, ATimeOutThatAnAgentKeptIsTheCauseThoughAPeerThatFailedOfItIsHeardFirst) {
  auto spec = spec_of(2, 1);
  spec.timeout = std::chrono::minutes(1);
  spec.retries = 1;
  const RunId run = world.submit(spec);
  world.all_running(run);
  world.now += seconds(60);
  auto word = world.ended(world.node(run, 0), RankState::killed, 15, true);
  word.state = NodeState::stopping;
  word.stop_reason = StopReason::timeout;
  world.now += seconds(1);
  const auto echo = world.ended(world.node(run, 1), RankState::exited, 1);
  world.now += std::chrono::hours(2);
  world.must(DaemonStarted{});
  world.must(echo);
  EXPECT_EQ(world.attempt(run).cause, Cause::user_exit);
  world.must(word);
  EXPECT_EQ(world.attempt(run).cause, Cause::timeout);
  world.all_gone(run);
  EXPECT_EQ(world.run(run).state, RunState::timed_out);
  EXPECT_EQ(world.run(run).reason, "reached its time-out of 1m");
  EXPECT_EQ(world.run(run).user_exits, 0);
}

TEST_F(StepSilenceTest, APeerThatFailedAfterAnAgentEndedItsRanksBeforeTheirTimeIsToBlame) {
  const RunId run = world.submit(spec_of(2, 1));
  world.all_running(run);
  world.now += seconds(60);
  const auto word = world.ended(world.node(run, 0), RankState::killed, 15, true);
  world.now += seconds(1);
  world.must(world.ended(world.node(run, 1), RankState::exited, 1));
  world.must(word);  // by a clock that is behind
  EXPECT_EQ(world.attempt(run).cause, Cause::user_exit);
}

TEST_F(StepSilenceTest, WhatAnAgentThatDiedLeftIsKilledWithoutWaitingForItsSilence) {
  const RunId run = world.submit(spec_of(2, 1));
  const NodeId node = world.node(run, 1);
  world.must(AgentGone{node});  // not heard yet: it may be about to begin
  EXPECT_EQ(world.attempt(run).state, AttemptState::reserved);
  world.all_running(run);
  world.must(AgentGone{node});
  EXPECT_EQ(world.attempt(run).cause, Cause::node_lost);
  EXPECT_EQ(world.run(run).reason, "the agent of node 1 on host b ended and gave no reason");
  EXPECT_EQ(world.effects.back(), Effect(KillNode{node}));
  world.must(AgentGone{node});
  EXPECT_EQ(world.count<KillNode>(), 1);
  world.now += seconds(5);
  world.must(AgentGone{node});
  EXPECT_EQ(world.count<KillNode>(), 2);
}

TEST_F(StepSilenceTest, AnAgentThatLeftProcessesWhenAllWasToldIsNoLoss) {
  const RunId run = world.submit(spec_of(1, 1));
  world.all_running(run);
  world.must(world.ended(world.node(run, 0), RankState::exited, 0));
  world.must(AgentGone{world.node(run, 0)});
  EXPECT_EQ(world.attempt(run).cause, Cause::ok);
  EXPECT_EQ(world.count<KillNode>(), 1);
  world.all_gone(run);
  EXPECT_EQ(world.run(run).state, RunState::succeeded);
}

}  // namespace
}  // namespace lockstep
