// Ranks that make no progress, and the rank that the diagnosis names.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "platform/core/step/step.h"
#include "platform/core/step/step_world_for_test.h"

namespace lockstep::step {
namespace {

using std::chrono::seconds;
using ::testing::AllOf;
using ::testing::HasSubstr;
using testing_world::agent_gone;
using testing_world::node_gone;
using testing_world::spec_of;

class StepHangTest : public testing_world::StepTest {};

TEST_F(StepHangTest, ARankThatHangsEndsItsAttemptAndIsALoss) {
  const model::RunId run = world.submit(spec_of(2, 1));
  world.all_running(run);
  world.now += std::chrono::minutes(31);
  auto stalled = world.running(world.node(run, 0));
  stalled.ranks[0].step = 120;
  stalled.ranks[0].activity = model::Activity::sleeping;
  stalled.ranks[0].stalled_since = world.now - std::chrono::minutes(30);
  world.apply_event_ok(stalled);
  EXPECT_EQ(world.attempt(run).cause, model::Cause::hung);
  EXPECT_EQ(command(run, 1), model::CommandKind::stop);
  auto stopped = world.running(world.node(run, 1));  // looked at before it is signalled
  stopped.ranks[0].step = 120;
  stopped.ranks[0].activity = model::Activity::stopped;
  world.apply_event_ok(stopped);
  drain(run);
  const model::Attempt& first = world.state.attempts.at({run, 1});
  EXPECT_EQ(first.cause, model::Cause::hung);
  EXPECT_THAT(first.reason, AllOf(HasSubstr("rank 1 on host b hangs"), HasSubstr("step 120"),
                                  HasSubstr("30m"), HasSubstr("stopped")));
  EXPECT_EQ(world.run(run).epoch, 2);
  EXPECT_EQ(world.run(run).losses, 1);
  EXPECT_EQ(world.run(run).user_exits, 0);
}

TEST_F(StepHangTest, APeerThatGivesUpOnAStoppedRankIsALossAndNotTheUsersExit) {
  const model::RunId run = world.submit(spec_of(2, 1));
  world.all_running(run);
  world.apply_event_ok(world.ended(world.node(run, 0), model::RankState::exited, 1));
  EXPECT_EQ(world.attempt(run).cause, model::Cause::user_exit);
  auto stopped = world.running(world.node(run, 1));
  stopped.ranks[0].activity = model::Activity::stopped;
  world.apply_event_ok(stopped);
  auto signalled = world.running(world.node(run, 1));  // SIGCONT came with the end
  signalled.ranks[0].activity = model::Activity::running;
  world.apply_event_ok(signalled);
  EXPECT_EQ(world.attempt(run).cause, model::Cause::hung);
  drain(run);
  EXPECT_EQ(world.run(run).losses, 1);
  EXPECT_EQ(world.run(run).epoch, 2);
}

TEST_F(StepHangTest, ANodeThatTurnsOutToBeLostIsTheCauseAndNotThePeersThatWaitedForIt) {
  const model::RunId run = world.submit(spec_of(2, 1));
  world.all_running(run);
  world.now += seconds(20);
  auto stalled = world.running(world.node(run, 0));
  stalled.ranks[0].stalled_since = world.now - seconds(10);
  world.apply_event_ok(stalled);
  EXPECT_EQ(world.attempt(run).cause, model::Cause::hung);
  world.advance_time(seconds(10));
  EXPECT_EQ(world.attempt(run).cause, model::Cause::node_lost);
}

// While it hangs, the loss of another rank is no explanation: here no agent was reachable at the
// end, and the nodes were killed.
TEST_F(StepHangTest, ARankThatSomebodyStoppedIsToBlameThoughItsPeersNodeWasLostToo) {
  const model::RunId run = world.submit(spec_of(2, 1));
  world.all_running(run);
  world.now += seconds(20);
  auto stopped = world.running(world.node(run, 1));
  stopped.ranks[0].activity = model::Activity::stopped;
  stopped.ranks[0].stalled_since = world.now - seconds(10);
  world.apply_event_ok(stopped);
  ASSERT_EQ(world.attempt(run).cause, model::Cause::hung);
  world.now += seconds(20);
  world.apply_event_ok(node_gone(world.node(run, 0)));
  EXPECT_EQ(world.attempt(run).cause, model::Cause::hung);
}

// Its peers did not give up on it: by its last report, the agent of node 0 had ended its ranks by
// then.
TEST_F(StepHangTest, AStoppedRankIsNotToBlameForPeersThatFailedOfTheTimeOut) {
  auto spec = spec_of(2, 2);
  spec.timeout = seconds(60);
  const model::RunId run = world.submit(spec);
  world.all_running(run);
  world.now += seconds(60);
  auto ended = world.ended(world.node(run, 0), model::RankState::killed, 15, true);
  ended.state = model::NodeState::stopping;
  ended.stop_reason = model::StopReason::timeout;
  world.now += seconds(1);
  auto failed = world.running(world.node(run, 1));
  failed.ranks[0].activity = model::Activity::stopped;
  failed.ranks[1].state = model::RankState::exited;
  failed.ranks[1].code = 1;
  failed.ranks[1].ended = world.now;
  world.apply_event_ok(failed);
  ASSERT_EQ(world.attempt(run).cause, model::Cause::hung);
  world.apply_event_ok(ended);
  EXPECT_EQ(world.attempt(run).cause, model::Cause::timeout);
}

// Its node was alive when it reported the hang, and was lost because of it or with it.
TEST_F(StepHangTest, ANodeThatToldOfAHangAndThenNothingLeavesTheHangToBlame) {
  const model::RunId run = world.submit(spec_of(1, 1));
  world.all_running(run);
  world.now += seconds(20);
  auto stalled = world.running(world.node(run, 0));
  stalled.ranks[0].stalled_since = world.now - seconds(10);
  world.apply_event_ok(stalled);
  ASSERT_EQ(world.attempt(run).cause, model::Cause::hung);
  const std::string reason = world.attempt(run).reason;
  world.now += seconds(1);
  world.apply_event_ok(agent_gone(world.node(run, 0)));
  EXPECT_EQ(world.attempt(run).cause, model::Cause::hung);
  EXPECT_EQ(world.attempt(run).reason, reason);
}

}  // namespace
}  // namespace lockstep::step
