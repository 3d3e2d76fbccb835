// Gangs whose daemon, away since it sent `start`, never received that they run. Their agents let
// the ranks run for their time limit and then end them.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "platform/core/step/step_world_for_test.h"

namespace lockstep::step {
namespace {

using std::chrono::hours;
using std::chrono::minutes;
using std::chrono::seconds;
using ::testing::AllOf;
using ::testing::HasSubstr;
using testing_world::spec_of;

class AGangLeftAlone : public testing_world::StepTest {
 protected:
  AGangLeftAlone() {
    auto spec = spec_of(2, 1);
    spec.timeout = minutes(10);
    run_ = world.submit(spec);
    world.all_ready(run_);
    world.apply_event_ok(world.running(world.node(run_, 0)));
    world.now += minutes(15);
    stopped_ = stop_on_its_own(0);
    world.now += hours(2);
    world.apply_event_ok(model::DaemonStarted{});
  }
  model::NodeReport stop_on_its_own(int node) {
    auto word = world.ended(world.node(run_, node), model::RankState::killed, 15, true);
    word.state = model::NodeState::stopping;
    word.stop_reason = model::StopReason::timeout;
    return word;
  }

  model::RunId run_;
  model::NodeReport stopped_;
};

TEST_F(AGangLeftAlone, HasTimedOutOnceAllNodesHaveSaidThatTheirRanksRan) {
  auto other = stop_on_its_own(1);
  other.ranks[0].ended = *stopped_.ranks[0].ended + seconds(2);
  world.apply_event_ok(stopped_);
  world.apply_event_ok(stopped_);
  EXPECT_EQ(world.attempt(run_).state, model::AttemptState::launching);
  world.apply_event_ok(other);
  EXPECT_EQ(world.attempt(run_).cause, model::Cause::timeout);
  world.all_terminated(run_);
  EXPECT_EQ(world.run(run_).state, model::RunState::timed_out);
}

// A node that is cut off may have ended in time.
class AGangWhoseDaemonWasAway : public testing_world::StepTest {
 protected:
  AGangWhoseDaemonWasAway() {
    auto spec = spec_of(2, 1);
    spec.timeout = minutes(10);
    run_ = world.submit(spec);
    world.all_running(run_);
    world.now += minutes(11);
    world.apply_event_ok(model::DaemonStarted{});
    back_ = world.now;
  }
  // Calls of this node for 20 s.
  void hear(int node) {
    for (int i = 0; i < 20; ++i) {
      world.now += seconds(1);
      world.apply_event_ok(world.running(world.node(run_, node)));
      world.apply_event_ok(model::Tick{.listening_since = back_});
    }
  }
  model::RunId run_;
  Time back_{};
};

TEST_F(AGangWhoseDaemonWasAway, HasNotTimedOutUntilEachNodeHasCalledAgain) {
  hear(0);
  EXPECT_EQ(world.attempt(run_).state, model::AttemptState::running);
  world.apply_event_ok(world.running(world.node(run_, 1)));
  world.apply_event_ok(model::Tick{.listening_since = back_});
  EXPECT_EQ(world.attempt(run_).cause, model::Cause::timeout);
}

TEST_F(AGangWhoseDaemonWasAway, HasSucceededIfTheOtherNodeSaysThatItsRanksEndedInTime) {
  hear(0);
  for (int node : {1, 0}) {
    auto word = world.ended(world.node(run_, node), model::RankState::exited, 0);
    word.ranks[0].ended = back_ - minutes(5);
    world.apply_event_ok(word);
  }
  EXPECT_EQ(world.attempt(run_).cause, model::Cause::ok);
}

TEST_F(AGangLeftAlone, HasTimedOutIfOneOfItsRanksTookAStepForWhichAllAreNeeded) {
  stopped_.ranks[0].step = 1;
  world.apply_event_ok(stopped_);
  EXPECT_EQ(world.attempt(run_).cause, model::Cause::timeout);
}

TEST_F(AGangLeftAlone, HasUsedUpNoTimeWhenANodeHadNeverBegun) {
  world.apply_event_ok(stopped_);
  world.apply_event_ok(world.report(world.node(run_, 1), model::NodeState::ready));
  EXPECT_EQ(world.attempt(run_).cause, model::Cause::launch_failed);
  EXPECT_THAT(world.run(run_).reason,
              AllOf(HasSubstr("5m"), HasSubstr("node 1 on host b is still ready")));
  EXPECT_EQ(command(run_, 1), model::CommandKind::stop);
  drain(run_);
  EXPECT_EQ(world.run(run_).epoch, 2);
  EXPECT_EQ(world.run(run_).time_used, Duration(0));
}

// It got `start` when the daemon was back and had not yet received a report of the others.
TEST_F(AGangLeftAlone, HasUsedUpNoTimeWhenANodeBeganAfterTheOtherHadEnded) {
  world.apply_event_ok(world.running(world.node(run_, 1)));
  EXPECT_EQ(world.attempt(run_).state, model::AttemptState::running);
  world.apply_event_ok(stopped_);
  EXPECT_EQ(world.attempt(run_).state, model::AttemptState::running);
  world.apply_event_ok(world.running(world.node(run_, 1)));
  EXPECT_EQ(world.attempt(run_).cause, model::Cause::launch_failed);
  EXPECT_THAT(world.run(run_).reason,
              AllOf(HasSubstr("5m"), HasSubstr("node 1 on host b"), HasSubstr("later")));
}

// As after an adoption: the store does not know that all ranks ran.
TEST_F(AGangLeftAlone, HasTimedOutThoughALateReportShowedRanksThatHadEndedAsRunning) {
  world.apply_event_ok(stopped_);
  auto other = stop_on_its_own(1);
  other.ranks[0].ended = *stopped_.ranks[0].ended + seconds(2);
  world.apply_event_ok(world.running(world.node(run_, 1)));
  EXPECT_EQ(world.attempt(run_).cause, model::Cause::launch_failed);
  world.apply_event_ok(other);
  EXPECT_EQ(world.attempt(run_).cause, model::Cause::timeout);
  world.all_terminated(run_);
  EXPECT_EQ(world.run(run_).state, model::RunState::timed_out);
}

TEST_F(AGangLeftAlone, HasUsedUpNoTimeWhenRanksThatBeganLateEndSoonAfterTheOthersOnCommand) {
  stopped_.ranks[0].ended = world.now - seconds(1);
  world.apply_event_ok(stopped_);
  world.apply_event_ok(world.running(world.node(run_, 1)));
  ASSERT_EQ(world.attempt(run_).cause, model::Cause::launch_failed);
  world.now += seconds(3);
  auto other = world.ended(world.node(run_, 1), model::RankState::killed, 15, true);
  other.ranks[0].ended = world.now;
  world.apply_event_ok(other);
  EXPECT_EQ(world.attempt(run_).cause, model::Cause::launch_failed);
}

TEST_F(AGangLeftAlone, HasTimedOutThoughPeersFailedAsTheFirstAgentEndedItsRanks) {
  auto echo = world.ended(world.node(run_, 1), model::RankState::exited, 1);
  echo.ranks[0].ended = *stopped_.ranks[0].ended + seconds(1);
  world.apply_event_ok(echo);
  EXPECT_EQ(world.attempt(run_).cause, model::Cause::user_exit);
  world.apply_event_ok(stopped_);
  EXPECT_EQ(world.attempt(run_).cause, model::Cause::timeout);
}

TEST_F(AGangLeftAlone, BlamesTheNodeThatBeganLateAndNotThatItsRanksFailed) {
  world.apply_event_ok(world.ended(world.node(run_, 1), model::RankState::exited, 1));
  EXPECT_EQ(world.attempt(run_).cause, model::Cause::user_exit);
  world.apply_event_ok(stopped_);
  EXPECT_EQ(world.attempt(run_).cause, model::Cause::launch_failed);
}

TEST_F(AGangLeftAlone, HasLostTheNodeThatIsNotHeardAgain) {
  world.apply_event_ok(stopped_);
  world.now += minutes(5);
  world.apply_event_ok(model::Tick{world.now - minutes(5)});
  EXPECT_EQ(world.attempt(run_).cause, model::Cause::node_lost);
}

TEST(ANodeLeftAlone, HasTimedOutAtOnceThoughItsRanksTakeTheirTimeToEnd) {
  testing_world::World one(testing_world::map_of(1, 1));
  auto spec = spec_of(1, 1);
  spec.timeout = minutes(10);
  const model::RunId run = one.submit(spec);
  one.all_ready(run);
  one.now += minutes(10);
  auto word = one.running(one.node(run, 0));
  word.state = model::NodeState::stopping;
  word.stop_reason = model::StopReason::timeout;
  one.apply_event_ok(word);
  EXPECT_EQ(one.attempt(run).cause, model::Cause::timeout);
}

// Its ranks took eight minutes to start, or the daemon's clock was set forward meanwhile; and an
// administrator ended its agent.
TEST(ANodeLeftAlone, HasNotTimedOutIfItStoppedForAnotherReasonHoweverOldItsAttemptIs) {
  testing_world::World one(testing_world::map_of(1, 1));
  auto spec = spec_of(1, 1);
  spec.timeout = minutes(10);
  const model::RunId run = one.submit(spec);
  one.all_ready(run);
  one.now += minutes(8);
  one.apply_event_ok(one.running(one.node(run, 0)));
  one.now += minutes(3);
  auto word = one.ended(one.node(run, 0), model::RankState::killed, 15, true);
  word.state = model::NodeState::stopping;
  word.message = "somebody ended the agent by signal 15";
  one.apply_event_ok(word);
  EXPECT_EQ(one.attempt(run).cause, model::Cause::node_lost);
  EXPECT_THAT(one.attempt(run).reason, AllOf(HasSubstr("node 0 on host a"),
                                             HasSubstr("somebody ended the agent by signal 15")));
  one.all_terminated(run);
  EXPECT_EQ(one.run(run).time_used, Duration(minutes(3)));
  EXPECT_EQ(one.run(run).state, model::RunState::starting);
}

TEST(AGangOfThreeLeftAlone, BlamesTheNodeThatNeverBeganAndNotThePeerThatFailedOfIt) {
  testing_world::World three(testing_world::map_of(3, 1));
  auto spec = spec_of(3, 1);
  spec.timeout = minutes(10);
  const model::RunId run = three.submit(spec);
  three.all_ready(run);
  three.now += minutes(15);
  auto stopped = three.ended(three.node(run, 0), model::RankState::killed, 15, true);
  stopped.state = model::NodeState::stopping;
  stopped.stop_reason = model::StopReason::timeout;
  three.now += seconds(1);
  const auto echo = three.ended(three.node(run, 1), model::RankState::exited, 1);
  three.now += hours(2);
  three.apply_event_ok(model::DaemonStarted{});
  three.apply_event_ok(echo);
  three.apply_event_ok(stopped);
  EXPECT_EQ(three.attempt(run).cause, model::Cause::user_exit);  // the true cause is unknown
  three.apply_event_ok(three.report(three.node(run, 2), model::NodeState::stopping));
  EXPECT_EQ(three.attempt(run).cause, model::Cause::launch_failed);
  EXPECT_THAT(three.attempt(run).reason,
              AllOf(HasSubstr("5m"), HasSubstr("node 2 on host c"), HasSubstr("none")));
}

}  // namespace
}  // namespace lockstep::step
