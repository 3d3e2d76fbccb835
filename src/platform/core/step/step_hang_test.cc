// Ranks that make no progress, and whom the attempt blames for it.
#include <gtest/gtest.h>

#include "platform/core/step/step.h"
#include "platform/core/step/step_world_for_test.h"

namespace lockstep {
namespace {

using std::chrono::seconds;
using testing_world::spec_of;

class StepHangTest : public testing_world::StepTest {};

TEST_F(StepHangTest, ARankThatHangsEndsItsAttemptAndIsALoss) {
  const RunId run = world.submit(spec_of(2, 1));
  world.all_running(run);
  world.now += std::chrono::minutes(31);
  auto stalled = world.running(world.node(run, 0));
  stalled.ranks[0].step = 120;
  stalled.ranks[0].activity = Activity::sleeping;
  stalled.ranks[0].stalled_since = world.now - std::chrono::minutes(30);
  world.must(stalled);
  EXPECT_EQ(world.attempt(run).cause, Cause::hung);
  EXPECT_EQ(command(run, 1), CommandKind::stop);
  auto stopped = world.running(world.node(run, 1));  // looked at before it is signalled
  stopped.ranks[0].step = 120;
  stopped.ranks[0].activity = Activity::stopped;
  world.must(stopped);
  drain(run);
  const Attempt& first = world.state.attempts.at({run, 1});
  EXPECT_EQ(first.cause, Cause::hung);
  EXPECT_EQ(first.reason,
            "rank 1 on host b hangs: no progress since step 120 for 30m; its process is stopped "
            "(SIGSTOP or a debugger)");
  EXPECT_EQ(world.run(run).epoch, 2);
  EXPECT_EQ(world.run(run).losses, 1);
  EXPECT_EQ(world.run(run).user_exits, 0);
}

TEST_F(StepHangTest, APeerThatGivesUpOnAStoppedRankIsALossAndNotTheUsersExit) {
  const RunId run = world.submit(spec_of(2, 1));
  world.all_running(run);
  world.must(world.ended(world.node(run, 0), RankState::exited, 1));
  EXPECT_EQ(world.attempt(run).cause, Cause::user_exit);
  auto stopped = world.running(world.node(run, 1));
  stopped.ranks[0].activity = Activity::stopped;
  world.must(stopped);
  auto signalled = world.running(world.node(run, 1));  // SIGCONT came with the end
  signalled.ranks[0].activity = Activity::running;
  world.must(signalled);
  EXPECT_EQ(world.attempt(run).cause, Cause::hung);
  drain(run);
  EXPECT_EQ(world.run(run).losses, 1);
  EXPECT_EQ(world.run(run).epoch, 2);
}

TEST_F(StepHangTest, ANodeThatTurnsOutToBeLostIsTheCauseAndNotThePeersThatWaitedForIt) {
  const RunId run = world.submit(spec_of(2, 1));
  world.all_running(run);
  world.now += seconds(20);
  auto stalled = world.running(world.node(run, 0));
  stalled.ranks[0].stalled_since = world.now - seconds(10);
  world.must(stalled);
  EXPECT_EQ(world.attempt(run).cause, Cause::hung);
  world.pass_time(seconds(10));
  EXPECT_EQ(world.attempt(run).cause, Cause::node_lost);
}

// As long as it stands still nobody's loss explains that: here nobody could be heard in the end,
// and the nodes were killed.
TEST_F(StepHangTest, ARankThatSomebodyStoppedIsToBlameThoughItsPeersNodeWasLostToo) {
  const RunId run = world.submit(spec_of(2, 1));
  world.all_running(run);
  world.now += seconds(20);
  auto stopped = world.running(world.node(run, 1));
  stopped.ranks[0].activity = Activity::stopped;
  stopped.ranks[0].stalled_since = world.now - seconds(10);
  world.must(stopped);
  ASSERT_EQ(world.attempt(run).cause, Cause::hung);
  world.now += seconds(20);
  world.must(NodeGone{world.node(run, 0)});
  EXPECT_EQ(world.attempt(run).cause, Cause::hung);
}

// Its peers did not give up on it: the agent of node 0 had ended its ranks by then, as was heard
// last.
TEST_F(StepHangTest, AStoppedRankIsNotToBlameForPeersThatFailedOfTheTimeOut) {
  auto spec = spec_of(2, 2);
  spec.timeout = seconds(60);
  const RunId run = world.submit(spec);
  world.all_running(run);
  world.now += seconds(60);
  auto ended = world.ended(world.node(run, 0), RankState::killed, 15, true);
  ended.state = NodeState::stopping;
  ended.stop_reason = StopReason::timeout;
  world.now += seconds(1);
  auto failed = world.running(world.node(run, 1));
  failed.ranks[0].activity = Activity::stopped;
  failed.ranks[1].state = RankState::exited;
  failed.ranks[1].code = 1;
  failed.ranks[1].ended = world.now;
  world.must(failed);
  ASSERT_EQ(world.attempt(run).cause, Cause::hung);
  world.must(ended);
  EXPECT_EQ(world.attempt(run).cause, Cause::timeout);
}

// It was there when it told of the hang, and died of it or with it.
TEST_F(StepHangTest, ANodeThatToldOfAHangAndThenNothingLeavesTheHangToBlame) {
  const RunId run = world.submit(spec_of(1, 1));
  world.all_running(run);
  world.now += seconds(20);
  auto stalled = world.running(world.node(run, 0));
  stalled.ranks[0].stalled_since = world.now - seconds(10);
  world.must(stalled);
  ASSERT_EQ(world.attempt(run).cause, Cause::hung);
  const std::string reason = world.attempt(run).reason;
  world.now += seconds(1);
  world.must(AgentGone{world.node(run, 0)});
  EXPECT_EQ(world.attempt(run).cause, Cause::hung);
  EXPECT_EQ(world.attempt(run).reason, reason);
}

}  // namespace
}  // namespace lockstep
