#include <csignal>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "platform/core/step/step_world_for_test.h"

namespace lockstep::step {
namespace {

using std::chrono::seconds;
using ::testing::AllOf;
using ::testing::HasSubstr;
using testing_world::node_gone;
using testing_world::not_started;
using testing_world::spec_of;

class StepTest : public testing_world::StepTest {};

TEST_F(StepTest, ARunGoesFromQueuedToSucceeded) {
  const model::RunId run = world.submit(spec_of(2, 2));
  EXPECT_EQ(world.run(run).state, model::RunState::starting);
  EXPECT_EQ(world.attempt(run).state, model::AttemptState::reserved);
  EXPECT_EQ(world.count<model::SubmitGang>(), 1);
  world.apply_event_ok(world.report(world.node(run, 0), model::NodeState::ready));
  EXPECT_EQ(world.attempt(run).state, model::AttemptState::launching);
  EXPECT_EQ(command(run, 0), model::CommandKind::none);
  world.apply_event_ok(world.report(world.node(run, 1), model::NodeState::ready));
  EXPECT_EQ(command(run, 0), model::CommandKind::start);
  world.all_running(run);
  EXPECT_EQ(world.run(run).state, model::RunState::running);
  world.now += seconds(60);
  world.apply_event_ok(world.ended(world.node(run, 0), model::RankState::exited, 0));
  EXPECT_EQ(world.attempt(run).state, model::AttemptState::running);
  EXPECT_EQ(command(run, 0), model::CommandKind::none);
  world.apply_event_ok(world.ended(world.node(run, 1), model::RankState::exited, 0));
  EXPECT_EQ(world.attempt(run).state, model::AttemptState::draining);
  EXPECT_EQ(command(run, 0), model::CommandKind::leave);
  world.all_terminated(run);
  EXPECT_EQ(world.run(run).state, model::RunState::succeeded);
  EXPECT_THAT(world.run(run).reason, AllOf(HasSubstr("4 ranks"), HasSubstr("code 0")));
  EXPECT_EQ(world.run(run).time_used, Duration(seconds(60)));
  EXPECT_EQ(world.count<model::KillNode>(), 0);
}

TEST_F(StepTest, ARemainderIsTheGangsLastNode) {
  model::RunSpec spec = spec_of(1, 2);
  spec.remainder = 1;
  const model::RunId run = world.submit(spec);
  ASSERT_EQ(world.nodes(run).size(), 2u);
  EXPECT_EQ(world.state.nodes.at(world.node(run, 1)).devices.size(), 1u);
  world.all_running(run);
  EXPECT_EQ(world.run(run).state, model::RunState::running);
  for (const model::NodeId& node : world.nodes(run))
    world.apply_event_ok(world.ended(node, model::RankState::exited, 0));
  world.all_terminated(run);
  EXPECT_THAT(world.run(run).reason, AllOf(HasSubstr("3 ranks"), HasSubstr("code 0")));
  spec.nodes = 2;
  EXPECT_EQ(world.apply_event(model::SubmitRun{spec, {}}).error().code, Code::invalid);
}

TEST_F(StepTest, RunsOfAProjectAreNumberedFromOne) {
  EXPECT_EQ(text(world.submit(spec_of(1, 1))), "demo/1");
  auto other = spec_of(1, 1);
  other.project = "aaa";
  world.apply_event_ok(model::SubmitRun{other, {}});
  EXPECT_TRUE(world.state.runs.contains({"aaa", 1}));
  EXPECT_EQ(text(world.submit(spec_of(1, 1))), "demo/2");
}

TEST_F(StepTest, ASubmissionThatIsRepeatedUnderItsIdMakesNoSecondRun) {
  const auto spec = spec_of(1, 1);
  world.apply_event_ok(model::SubmitRun{spec, {}, "3f-a"});
  world.apply_event_ok(model::SubmitRun{spec, {"ann", "", true}, "3f-a"});
  EXPECT_EQ(world.state.runs.size(), 1u);
  EXPECT_EQ(world.run({"demo", 1}).version, 1) << "nothing changed";
  world.apply_event_ok(model::SubmitRun{spec, {}, "3f-b"});
  world.apply_event_ok(model::SubmitRun{spec, {}});
  world.apply_event_ok(model::SubmitRun{spec, {}});
  EXPECT_EQ(world.state.runs.size(), 4u) << "another id, and none, each make a run";
}

TEST_F(StepTest, OnlySoManyRunsMayBeOpen) {
  for (int number = 1; number <= 50'000; ++number) world.state.open.insert({"full", number});
  const auto refused = step(world.state, model::SubmitRun{spec_of(1, 1), {}}, world.now);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, Code::exhausted);
  EXPECT_THAT(refused.error().message, HasSubstr("wait until some have, or stop some"));
}

TEST_F(StepTest, AnIdOfAnotherRunOrNoNameIsRefusedAsARequestId) {
  world.apply_event_ok(model::SubmitRun{spec_of(1, 1), {}, "3f-a"});
  const auto taken = world.apply_event(model::SubmitRun{spec_of(1, 2), {}, "3f-a"});
  EXPECT_EQ(taken.error().code, Code::invalid);
  EXPECT_THAT(taken.error().message, AllOf(HasSubstr("request_id: "), HasSubstr("'3f-a'"),
                                           HasSubstr("demo/1"), HasSubstr("new id")));
  EXPECT_THAT(world.apply_event(model::SubmitRun{spec_of(1, 1), {}, "a b"}).error().message,
              HasSubstr("request_id: 'a b' must begin with"));
  EXPECT_EQ(world.state.runs.size(), 1u);
}

TEST_F(StepTest, ARunThatNamesItsOwnGpusIsRefusedWhereTheMapHasGpus) {
  auto spec = spec_of(1, 1);
  spec.env = {{"CUDA_VISIBLE_DEVICES", "2,3"}};
  const auto refused = world.apply_event(model::SubmitRun{spec, {}});
  EXPECT_EQ(refused.error().code, Code::invalid);
  EXPECT_THAT(refused.error().message,
              AllOf(HasSubstr("env: CUDA_VISIBLE_DEVICES is '2,3'"), HasSubstr("--devices")));
  spec.env["CUDA_VISIBLE_DEVICES"].clear();
  world.apply_event_ok(model::SubmitRun{spec, {}});
  for (auto& pod : world.state.map.pods)
    for (auto& leaf : pod.leaves)
      for (auto& host : leaf.hosts)
        for (auto& island : host.islands)
          for (auto& device : island.devices) device.kind = map::DeviceKind::core;
  spec.env["CUDA_VISIBLE_DEVICES"] = "2,3";
  world.apply_event_ok(model::SubmitRun{spec, {}});
}

TEST_F(StepTest, ABadSpecAndOneThatFitsNowhereAreRefused) {
  auto spec = spec_of(1, 1);
  spec.timeout = Duration(0);
  EXPECT_EQ(world.apply_event(model::SubmitRun{spec, {}}).error().code, Code::invalid);
  EXPECT_THAT(world.apply_event(model::SubmitRun{spec_of(3, 1), {}}).error().message,
              HasSubstr("the map has 2 hosts"));
  EXPECT_TRUE(world.state.runs.empty());
}

TEST_F(StepTest, AWaitingRunSaysForWhomAndStartsAfterIt) {
  const model::RunId first = world.submit(spec_of(1, 2));
  const model::RunId second = world.submit(spec_of(2, 2));
  EXPECT_EQ(world.run(second).state, model::RunState::queued);
  EXPECT_THAT(world.run(second).reason,
              AllOf(HasSubstr("waits for demo/1"), HasSubstr("2 hosts with 2 free devices"),
                    HasSubstr("1 has")));
  world.all_running(first);
  world.apply_event_ok(world.ended(world.node(first, 0), model::RankState::exited, 0));
  EXPECT_EQ(world.run(second).state,
            model::RunState::queued);  // devices are held until nothing is left
  world.all_terminated(first);
  EXPECT_EQ(world.run(second).state, model::RunState::starting);
  EXPECT_EQ(world.run(second).reason, "");
}

// The head needs both hosts; the third run would end before the first one's limit.
TEST_F(StepTest, AShortRunPassesTheOneThatWaitsUnlessItWouldKeepItWaiting) {
  auto spec = spec_of(1, 2);
  spec.timeout = std::chrono::hours(10);
  const model::RunId first = world.submit(spec);
  const model::RunId head = world.submit(spec_of(2, 2));
  spec = spec_of(1, 1);
  spec.timeout = std::chrono::hours(5);
  const model::RunId passes = world.submit(spec);
  EXPECT_EQ(world.run(passes).state, model::RunState::starting);
  world.apply_event_ok(
      model::StopRun{first, ""});  // its devices will be free in a moment, the other's after 5 h
  spec.timeout = std::chrono::hours(6);
  const model::RunId waits = world.submit(spec);
  EXPECT_THAT(world.run(waits).reason, HasSubstr("behind other runs"));
  EXPECT_EQ(world.run(head).state, model::RunState::queued);
}

TEST_F(StepTest, ALostRankIsTriedAgainAndSaysSo) {
  const model::RunId run = world.submit(spec_of(2, 2));
  world.all_running(run);
  auto word = world.running(world.node(run, 1));
  word.ranks[1].state = model::RankState::killed;
  word.ranks[1].code = 9;
  world.apply_event_ok(word);
  EXPECT_EQ(command(run, 0), model::CommandKind::stop);
  drain(run);
  EXPECT_EQ(world.run(run).epoch, 2);
  EXPECT_EQ(world.run(run).state, model::RunState::starting);
  EXPECT_EQ(world.run(run).losses, 1);
  EXPECT_THAT(world.run(run).reason, AllOf(HasSubstr("rank 3 on host b"), HasSubstr("SIGKILL"),
                                           HasSubstr("attempt 2"), HasSubstr("retry 1 of 3")));
  EXPECT_EQ(world.state.attempts.at({run, 1}).cause, model::Cause::rank_lost);
  EXPECT_EQ(world.count<model::SubmitGang>(), 2);
}

TEST_F(StepTest, APeerThatFailsBecauseARankDiedDoesNotHideTheDeath) {
  const model::RunId run = world.submit(spec_of(2, 1));
  world.all_running(run);
  const Time death = world.now;
  world.now += std::chrono::milliseconds(100);
  world.apply_event_ok(world.ended(world.node(run, 0), model::RankState::exited, 1));
  EXPECT_EQ(world.attempt(run).cause, model::Cause::user_exit);
  auto late = world.ended(world.node(run, 1), model::RankState::killed, 11);
  late.ranks[0].ended = death;
  world.apply_event_ok(late);
  EXPECT_EQ(world.attempt(run).cause, model::Cause::rank_lost);
  EXPECT_THAT(world.attempt(run).reason,
              AllOf(HasSubstr("rank 1 on host b"), HasSubstr("SIGSEGV")));
}

TEST_F(StepTest, AUsersExitFailsTheRunUnlessItHasRetries) {
  auto spec = spec_of(1, 1);
  const model::RunId once = world.submit(spec);
  world.all_running(once);
  world.apply_event_ok(world.ended(world.node(once, 0), model::RankState::exited, 3));
  world.all_terminated(once);
  EXPECT_EQ(world.run(once).state, model::RunState::failed);
  EXPECT_THAT(world.run(once).reason, AllOf(HasSubstr("rank 0 on host a"), HasSubstr("code 3")));

  spec.retries = 1;
  const model::RunId twice = world.submit(spec);
  for (int i = 0; i < 2; ++i) {
    world.all_running(twice);
    world.apply_event_ok(world.ended(world.node(twice, 0), model::RankState::exited, 3));
    world.all_terminated(twice);
  }
  EXPECT_EQ(world.run(twice).epoch, 2);
  EXPECT_EQ(world.run(twice).state, model::RunState::failed);
  EXPECT_THAT(world.run(twice).reason, HasSubstr("1 of 1 retries are used up"));
}

TEST_F(StepTest, LossesAreRetriedAtOnceThenWithGrowingPauses) {
  const model::RunId run = world.submit(spec_of(1, 1));
  lose_a_rank(run);
  EXPECT_EQ(world.run(run).state, model::RunState::starting);
  lose_a_rank(run);
  EXPECT_EQ(world.run(run).state, model::RunState::queued);
  EXPECT_THAT(world.run(run).reason, HasSubstr("attempt 3 follows after 2s (retry 2 of 3)"));
  world.advance_time(seconds(1));
  EXPECT_EQ(world.run(run).state, model::RunState::queued);
  world.advance_time(seconds(1));
  EXPECT_EQ(world.run(run).state, model::RunState::starting);
  lose_a_rank(run);
  world.advance_time(seconds(4));
  lose_a_rank(run);
  EXPECT_EQ(world.run(run).state, model::RunState::failed);
  EXPECT_THAT(world.run(run).reason,
              HasSubstr("3 of 3 retries without a newer checkpoint are used up"));
}

TEST_F(StepTest, ARunThatPausesKeepsNobodyWaiting) {
  const model::RunId run = world.submit(spec_of(2, 2));
  lose_a_rank(run);
  lose_a_rank(run);
  const model::RunId other = world.submit(spec_of(2, 2));
  EXPECT_EQ(world.run(other).state, model::RunState::starting);
}

TEST_F(StepTest, ARunThatWasLostStandsAgainWhereItStood) {
  const model::RunId first = world.submit(spec_of(2, 2));
  world.now += seconds(1);
  const model::RunId second = world.submit(spec_of(2, 2));
  lose_a_rank(first);
  EXPECT_EQ(world.run(first).state, model::RunState::starting);
  EXPECT_EQ(world.run(second).state, model::RunState::queued);
}

TEST_F(StepTest, AStoppedRunIsCancelledAtOnceOnlyInTheQueue) {
  const model::RunId live = world.submit(spec_of(2, 2));
  const model::RunId queued = world.submit(spec_of(1, 1));
  world.apply_event_ok(model::StopRun{queued, "no\nlonger needed"});
  EXPECT_EQ(world.run(queued).state, model::RunState::cancelled);
  EXPECT_THAT(world.run(queued).reason, AllOf(HasSubstr("stopped"), HasSubstr("no longer needed")));
  world.all_running(live);
  world.apply_event_ok(model::StopRun{live, ""});
  world.apply_event_ok(model::StopRun{live, "again"});
  EXPECT_EQ(world.attempt(live).state, model::AttemptState::draining);
  EXPECT_EQ(command(live, 1), model::CommandKind::stop);
  drain(live);
  EXPECT_EQ(world.run(live).state, model::RunState::cancelled);
  world.apply_event_ok(model::StopRun{live, "again"});
  EXPECT_EQ(world.apply_event(model::StopRun{{"demo", 9}, ""}).error().code, Code::not_found);
}

TEST_F(StepTest, AStopWhileALostAttemptDrainsPreventsTheNext) {
  const model::RunId run = world.submit(spec_of(1, 1));
  world.all_running(run);
  world.apply_event_ok(world.ended(world.node(run, 0), model::RankState::killed, 9));
  world.apply_event_ok(model::StopRun{run, ""});
  world.all_terminated(run);
  EXPECT_EQ(world.run(run).state, model::RunState::cancelled);
}

TEST_F(StepTest, TheTimeOutCountsRunningTimeOverAllAttempts) {
  auto spec = spec_of(1, 1);
  spec.timeout = seconds(100);
  const model::RunId run = world.submit(spec);
  world.now += seconds(20);  // launching is not counted
  world.all_running(run);
  world.now += seconds(25);
  lose_a_rank(run);
  world.all_running(run);
  for (int i = 0; i < 7; ++i) {
    world.now += seconds(10);
    world.apply_event_ok(world.running(world.node(run, 0)));
    world.advance_time(Duration(0));
    EXPECT_EQ(world.attempt(run).state, model::AttemptState::running);
  }
  world.advance_time(seconds(5));
  EXPECT_EQ(world.attempt(run).cause, model::Cause::timeout);
  drain(run);
  EXPECT_EQ(world.run(run).state, model::RunState::timed_out);
  EXPECT_THAT(world.run(run).reason, AllOf(HasSubstr("time-out"), HasSubstr("1m 40s")));
}

TEST_F(StepTest, AnAgentThatEnforcesTheTimeOutItselfIsBelieved) {
  auto spec = spec_of(1, 1);
  spec.timeout = seconds(20);
  const model::RunId run = world.submit(spec);
  world.all_running(run);
  world.now += seconds(19);
  auto word = world.ended(world.node(run, 0), model::RankState::killed, 15, true);
  word.state = model::NodeState::stopping;
  word.stop_reason = model::StopReason::timeout;
  world.apply_event_ok(word);
  EXPECT_EQ(world.attempt(run).cause, model::Cause::timeout);
}

TEST_F(StepTest, ANodeThatDiesHidesThePeersThatFailBecauseOfIt) {
  const model::RunId run = world.submit(spec_of(2, 1));
  world.all_running(run);
  world.now += seconds(1);
  world.apply_event_ok(world.ended(world.node(run, 0), model::RankState::exited, 1));
  world.apply_event_ok(node_gone(world.node(run, 1)));
  EXPECT_EQ(world.attempt(run).cause, model::Cause::node_lost);
  EXPECT_THAT(world.attempt(run).reason,
              AllOf(HasSubstr("agent of node 1 on host b"), HasSubstr("ended")));
}

TEST_F(StepTest, ANodeThatIsGoneDoesNotHideAPeerThatCrashed) {
  const model::RunId run = world.submit(spec_of(2, 1));
  world.all_running(run);
  world.now += seconds(1);
  world.apply_event_ok(world.ended(world.node(run, 0), model::RankState::killed, SIGSEGV));
  world.apply_event_ok(node_gone(world.node(run, 1)));
  EXPECT_EQ(world.attempt(run).cause, model::Cause::rank_lost);
}

TEST_F(StepTest, ANodeThatObeysTooSlowlyIsKilledAndIsNotTheCause) {
  const model::RunId run = world.submit(spec_of(2, 1));
  world.all_running(run);
  world.now += seconds(1);
  world.apply_event_ok(world.ended(world.node(run, 0), model::RankState::exited, 1));
  world.now += seconds(1);
  world.apply_event_ok(world.running(world.node(run, 1)));
  world.advance_time(seconds(13));
  EXPECT_EQ(world.count<model::KillNode>(), 0);
  world.advance_time(seconds(1));
  EXPECT_EQ(world.count<model::KillNode>(), 1);
  world.advance_time(seconds(1));
  EXPECT_EQ(world.count<model::KillNode>(), 1);
  world.advance_time(seconds(4));
  EXPECT_EQ(world.count<model::KillNode>(), 2);
  world.all_terminated(run);
  EXPECT_EQ(world.run(run).state, model::RunState::failed);
  EXPECT_THAT(world.run(run).reason, AllOf(HasSubstr("rank 0 on host a"), HasSubstr("code 1")));
}

TEST_F(StepTest, ProcessesThatDoNotDieKeepTheirDevicesAndAreNamed) {
  const model::RunId run = world.submit(spec_of(2, 2));
  const model::RunId next = world.submit(spec_of(1, 1));
  world.all_running(run);
  world.apply_event_ok(model::StopRun{run, ""});
  world.advance_time(std::chrono::minutes(2));
  EXPECT_THAT(world.run(run).reason, HasSubstr("its devices stay held until the last processes"));
  EXPECT_EQ(world.run(next).state, model::RunState::queued);
}

TEST_F(StepTest, ALaunchThatFailsIsALossAndNeedsNoCheckpoint) {
  const model::RunId run = world.submit(spec_of(2, 1));
  world.apply_event_ok(not_started(world.node(run, 1), "no such\nprogram"));
  EXPECT_EQ(world.attempt(run).cause, model::Cause::launch_failed);
  EXPECT_EQ(command(run, 0), model::CommandKind::stop);
  world.all_terminated(run);
  EXPECT_EQ(world.run(run).epoch, 2);
  EXPECT_THAT(world.run(run).reason,
              AllOf(HasSubstr("node 1 on host b"), HasSubstr("no such program"),
                    HasSubstr("attempt 2"), HasSubstr("retry 1 of 3")));
}

TEST_F(StepTest, AnAgentThatNeverCallsIsALaunchThatFailed) {
  const model::RunId run = world.submit(spec_of(1, 1));
  world.advance_time(seconds(59));
  EXPECT_EQ(world.attempt(run).state, model::AttemptState::reserved);
  world.advance_time(seconds(1));
  EXPECT_EQ(world.attempt(run).cause, model::Cause::launch_failed);
  EXPECT_THAT(world.run(run).reason, HasSubstr("did not call within 1m"));
}

TEST_F(StepTest, AnAgentThatEndsBeforeItCalledIsALaunchThatFailed) {
  const model::RunId run = world.submit(spec_of(1, 1));
  world.apply_event_ok(node_gone(world.node(run, 0)));
  EXPECT_EQ(world.state.attempts.at({run, 1}).cause, model::Cause::launch_failed);
  EXPECT_EQ(world.run(run).epoch, 2);
}

TEST_F(StepTest, AnAgentThatNeverStartsItsRanksEndsItsAttempt) {
  const model::RunId run = world.submit(spec_of(1, 1));
  for (int i = 0; i < 15; ++i) {
    world.now += seconds(20);
    world.apply_event_ok(world.report(world.node(run, 0), model::NodeState::ready));
  }
  world.advance_time(Duration(0));
  EXPECT_EQ(world.attempt(run).cause, model::Cause::launch_failed);
  EXPECT_THAT(world.run(run).reason, HasSubstr("node 0 on host a is still ready"));
}

TEST_F(StepTest, AnAgentThatCannotStartItsRanksSaysWhy) {
  const model::RunId run = world.submit(spec_of(1, 1));
  auto word = world.report(world.node(run, 0), model::NodeState::stopping);
  word.message = "/work: No such file or directory";
  world.apply_event_ok(word);
  EXPECT_EQ(world.attempt(run).cause, model::Cause::launch_failed);
  EXPECT_THAT(world.run(run).reason,
              AllOf(HasSubstr("node 0 on host a"), HasSubstr("/work: No such file or directory")));
  EXPECT_EQ(command(run, 0), model::CommandKind::leave);
}

TEST_F(StepTest, StaleRepeatedAndLateReportsAreHarmless) {
  const model::RunId run = world.submit(spec_of(1, 1));
  const model::NodeId old = world.node(run, 0);
  lose_a_rank(run);
  world.all_running(run);
  const model::State before = world.state;
  world.apply_event_ok(world.ended(old, model::RankState::exited, 0));
  world.apply_event_ok(world.running(old));
  world.apply_event_ok(world.report(world.node(run, 0), model::NodeState::ready));
  world.apply_event_ok(world.running(world.node(run, 0)));
  world.apply_event_ok(node_gone(old));
  EXPECT_EQ(world.state.runs, before.runs);
  EXPECT_EQ(world.state.attempts, before.attempts);
  EXPECT_EQ(world.state.nodes, before.nodes);
}

TEST_F(StepTest, MalformedReportsAreRefusedAndChangeNothing) {
  const model::RunId run = world.submit(spec_of(2, 1));
  const model::NodeId node = world.node(run, 1);
  auto stranger = world.running(node);
  stranger.ranks[0].rank = 7;
  EXPECT_THAT(world.apply_event(stranger).error().message, HasSubstr("it has no rank 7"));
  EXPECT_FALSE(world.apply_event(world.report(node, model::NodeState::released)));
  auto nowhere = world.report(world.node(run, 0), model::NodeState::ready);
  nowhere.master_port = 70'000;
  EXPECT_FALSE(world.apply_event(nowhere));
  nowhere.address = "";
  EXPECT_FALSE(world.apply_event(nowhere));
  EXPECT_EQ(world.attempt(run).state, model::AttemptState::reserved);
}

TEST_F(StepTest, TheVersionGrowsWithWhatPeopleSeeAndNotWithHeartbeats) {
  const model::RunId run = world.submit(spec_of(1, 1));
  EXPECT_EQ(world.run(run).version, 1);
  world.all_running(run);
  const auto version = world.run(run).version;
  EXPECT_GT(version, 1);
  const model::Node& node = world.state.nodes.at(world.node(run, 0));
  auto word = world.running(node.id);
  word.ranks[0].step = 7;
  world.now += seconds(4);
  world.apply_event_ok(word);
  EXPECT_EQ(node.ranks[0].step, -1);  // nothing is written down for so little
  world.now += seconds(2);
  world.apply_event_ok(word);
  EXPECT_EQ(world.run(run).version, version);
  EXPECT_EQ(node.last_heartbeat, world.now);
  EXPECT_EQ(node.ranks[0].step, 7);
}

TEST_F(StepTest, ARunInTheCheckpointFolderOfAnotherThatHasNotEndedIsRefused) {
  auto spec = spec_of(1, 1);
  spec.checkpoint_folder = "/data/gpt";
  const model::RunId first = world.submit(spec);
  const auto refused = world.apply_event(model::SubmitRun{spec, {}, {}, {first}});
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, Code::invalid);
  EXPECT_THAT(refused.error().message,
              AllOf(HasSubstr("checkpoint_folder: "), HasSubstr("demo/1 writes to /data/gpt"),
                    HasSubstr("--checkpoint-folder"), HasSubstr("--after demo/1"),
                    HasSubstr("stop demo/1")));
  auto behind = spec;
  behind.after = {text(first)};
  world.apply_event_ok(model::SubmitRun{behind, {}, {}, {first}});
  auto last = spec;
  last.after = {"demo/2"};
  world.apply_event_ok(model::SubmitRun{last, {}, {}, {first, model::RunId{"demo", 2}}});
}

TEST_F(StepTest, ARunIsNotResumedIntoTheFolderOfAnotherThatHasNotEnded) {
  auto spec = spec_of(1, 1);
  spec.not_before = world.now + std::chrono::hours(1);
  const model::RunId first = world.submit(spec);
  world.apply_event_ok(model::StopRun{first, ""});
  const model::RunId second = world.submit(spec);
  const auto resumed = world.apply_event(model::ResumeRun{first, {second}});
  ASSERT_FALSE(resumed);
  EXPECT_NE(resumed.error().message.find(text(second) + " writes to its folder"),
            std::string::npos);
}

TEST_F(StepTest, ARunsOwnGracePeriodIsThatOfItsAgentsAndOfTheDaemonsPatience) {
  auto spec = spec_of(1, 1);
  spec.grace_period = std::chrono::minutes(2);
  const model::RunId run = world.submit(spec);
  world.all_running(run);
  EXPECT_EQ(model::command_for(world.state, {"", world.node(run, 0)}).grace, *spec.grace_period);
  world.apply_event_ok(model::StopRun{run, ""});
  const auto tick = [&](Duration after) {
    world.now += after;
    world.apply_event_ok(world.running(world.node(run, 0)));
    world.apply_event_ok(model::Tick{});
  };
  tick(seconds(124));
  EXPECT_EQ(world.count<model::KillNode>(), 0);
  tick(seconds(1));
  EXPECT_EQ(world.count<model::KillNode>(), 1);
}

TEST_F(StepTest, AGracePeriodBeyondTheDaemonsBoundIsRefused) {
  auto spec = spec_of(1, 1);
  spec.grace_period = std::chrono::minutes(5);
  const auto refused = world.apply_event(model::SubmitRun{spec, {}});
  ASSERT_FALSE(refused);
  EXPECT_THAT(refused.error().message,
              AllOf(HasSubstr("grace_period"), HasSubstr("log_delivery_limit")));
  world.state.settings.log_delivery_limit = std::chrono::minutes(10);
  EXPECT_TRUE(world.apply_event(model::SubmitRun{spec, {}}));
}

TEST_F(StepTest, BoundsOfTheDaemonAreItsSettings) {
  world.state.settings = {.first_call_limit = seconds(20),
                          .kill_interval = seconds(2),
                          .retry_pause_first = seconds(7)};
  const model::RunId run = world.submit(spec_of(1, 1));
  for (int attempt = 1; attempt <= 2; ++attempt) {
    world.advance_time(seconds(19));
    EXPECT_EQ(world.attempt(run).cause, model::Cause::none);
    world.advance_time(seconds(1));
    EXPECT_EQ(world.attempt(run).cause, model::Cause::launch_failed);
    world.advance_time(seconds(2));
    EXPECT_EQ(world.count<model::KillNode>(), 2 * attempt);
    world.all_terminated(run);
  }
  EXPECT_EQ(world.run(run).not_before, world.now + seconds(7));
}

}  // namespace
}  // namespace lockstep::step
