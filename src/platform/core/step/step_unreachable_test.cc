// Nodes that are silent and may be alive: what they keep, when they are lost, and what is known
// when many are silent at once.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "platform/core/step/step_world_for_test.h"

namespace lockstep::step {
namespace {

using std::chrono::minutes;
using std::chrono::seconds;
using ::testing::ElementsAre;
using ::testing::Field;
using ::testing::HasSubstr;
using testing_world::agent_gone;
using testing_world::map_of;
using testing_world::node_gone;
using testing_world::spec_of;

// Ten hosts with a run of one node on each; the test says which of them call.
class UnreachableTest : public ::testing::Test {
 protected:
  UnreachableTest() {
    for (int i = 0; i < 10; ++i) runs.push_back(world.submit(spec_of(1, 1)));
    for (const model::RunId& run : runs) world.all_running(run);
  }
  // Three ticks. The runs from `first` on call before each.
  void pass(Duration time, std::size_t first, bool slow = false) {
    for (int i = 0; i < 3; ++i) {
      world.now += time / 3;
      for (std::size_t run = first; run < runs.size(); ++run) call(run);
      world.apply_event_ok(model::Tick{{}, slow ? world.now : Time{}});
    }
  }
  void call(std::size_t run) { world.apply_event_ok(world.running(world.node(runs[run], 0))); }
  const model::Node& node(std::size_t run) const {
    return world.state.nodes.at(world.node(runs[run], 0));
  }
  model::Cause cause(std::size_t run) const { return world.attempt(runs[run]).cause; }
  std::vector<std::string> events(std::size_t run) const {
    std::vector<std::string> lines;
    for (const model::AuditEntry& entry : world.run(runs[run]).audit) lines.push_back(entry.what);
    return lines;
  }

  testing_world::World world{map_of(10, 1)};
  std::vector<model::RunId> runs;
};

TEST_F(UnreachableTest, ASilentNodeKeepsItsProcessesAndDevicesAndGoesOnWhenItCalls) {
  const Time last = node(0).last_heartbeat;
  pass(minutes(4), 1);
  EXPECT_EQ(node(0).unreachable_since, last);
  EXPECT_EQ(node(0).state, model::NodeState::running);
  EXPECT_EQ(world.count<model::KillNode>(), 0);
  const std::int64_t version = world.run(runs[0]).version;
  call(0);
  EXPECT_FALSE(node(0).unreachable_since);
  EXPECT_GT(world.run(runs[0]).version, version);
  pass(minutes(1), 0);
  EXPECT_EQ(world.attempt(runs[0]).state, model::AttemptState::running);
  EXPECT_THAT(events(0),
              ElementsAre("node 0 on host a has been unreachable for 1m 20s; its ranks may go on",
                          "node 0 on host a is reachable again after 4m"));
  EXPECT_TRUE(world.state.hosts.empty());
}

TEST_F(UnreachableTest, ASilentNodeIsLostAfterTheLongerLimitAndItsHostIsBlamed) {
  pass(minutes(4), 1);
  EXPECT_EQ(cause(0), model::Cause::none);
  pass(minutes(1), 1);
  EXPECT_EQ(cause(0), model::Cause::node_lost);
  EXPECT_EQ(world.count<model::KillNode>(), 1);
  EXPECT_FALSE(node(0).unreachable_since);
  EXPECT_EQ(world.state.hosts.at("a").losses.size(), 1u);
}

TEST_F(UnreachableTest, WhenManyNodesAreSilentAtOnceNoneIsLostAndNoHostIsBlamed) {
  pass(minutes(29), 3);
  for (std::size_t i = 0; i < 3; ++i) EXPECT_EQ(cause(i), model::Cause::none);
  for (std::size_t i = 0; i < 3; ++i) call(i);
  pass(minutes(1), 0);
  for (std::size_t i = 0; i < 3; ++i)
    EXPECT_EQ(world.attempt(runs[i]).state, model::AttemptState::running);
  EXPECT_EQ(world.count<model::KillNode>(), 0);
}

TEST_F(UnreachableTest, EvenManySilentNodesAreLostAtLastWithoutBlameForTheirHosts) {
  pass(minutes(30), 3);
  for (std::size_t i = 0; i < 3; ++i) EXPECT_EQ(cause(i), model::Cause::node_lost);
  EXPECT_THAT(world.run(runs[0]).reason, HasSubstr("was silent for 30m"));
  EXPECT_TRUE(world.state.hosts.empty());
}

TEST_F(UnreachableTest, AFifthOfTheNodesIsNotMany) {
  pass(minutes(5), 2);
  EXPECT_EQ(cause(0), model::Cause::node_lost);
  EXPECT_EQ(cause(1), model::Cause::node_lost);
}

TEST_F(UnreachableTest, TheLimitsAreSettings) {
  world.state.settings = {.unreachable_after = seconds(60),
                          .lost_after = minutes(2),
                          .widespread_percent = 5,
                          .widespread_lost_after = minutes(3)};
  pass(seconds(54), 2);
  EXPECT_FALSE(node(0).unreachable_since);
  pass(seconds(120), 2);
  EXPECT_TRUE(node(0).unreachable_since);
  EXPECT_EQ(cause(0), model::Cause::none);
  pass(seconds(6), 2);
  EXPECT_EQ(cause(0), model::Cause::node_lost);
}

TEST_F(UnreachableTest, NodesOfOneHostAreNoSignOfTheDaemonsFault) {
  testing_world::World one(map_of(1, 2));
  const model::RunId first = one.submit(spec_of(1, 1)), second = one.submit(spec_of(1, 1));
  for (const auto& run : {first, second}) one.all_running(run);
  one.advance_time(minutes(5));
  EXPECT_EQ(one.attempt(first).cause, model::Cause::node_lost);
  EXPECT_EQ(one.attempt(second).cause, model::Cause::node_lost);
}

TEST_F(UnreachableTest, TheTimeForWhichTheDaemonIsSlowIsNoSilence) {
  pass(minutes(29), 1, true);
  EXPECT_FALSE(node(0).unreachable_since);
}

TEST_F(UnreachableTest, ADaemonThatIsAlwaysSlowLosesADeadNodeAfterTheLongestLimit) {
  pass(minutes(30), 1, true);
  EXPECT_EQ(cause(0), model::Cause::node_lost);
}

TEST_F(UnreachableTest, ANodeThatEndedIsLostAtOnce) {
  pass(minutes(1), 3);
  world.apply_event_ok(agent_gone(world.node(runs[0], 0)));
  EXPECT_EQ(cause(0), model::Cause::node_lost);
  world.apply_event_ok(node_gone(world.node(runs[1], 0)));
  EXPECT_EQ(world.run(runs[1]).epoch, 2);
}

TEST_F(UnreachableTest, AnUnreachableNodeOfARunThatIsToEndIsKilledLikeAnyOther) {
  pass(minutes(1), 1);
  world.apply_event_ok(model::StopRun{runs[0], "enough"});
  EXPECT_EQ(world.count<model::KillNode>(), 0);
  world.advance_time(seconds(15));
  EXPECT_EQ(world.count<model::KillNode>(), 1);
  EXPECT_EQ(cause(0), model::Cause::cancelled);
}

TEST_F(UnreachableTest, ARunThatIsToEndIsNotKilledAtOnceIfManyNodesAreSilentOrTheDaemonIsSlow) {
  for (const bool slow : {false, true}) {
    const std::size_t run = slow ? 9 : 0;
    pass(minutes(1), 3, slow);
    world.apply_event_ok(model::StopRun{runs[run], "enough"});
    pass(minutes(4), 3, slow);
    EXPECT_EQ(world.count<model::KillNode>(), 0) << slow;
    pass(minutes(1), 3, slow);
    EXPECT_EQ(world.count<model::KillNode>(), 1) << slow;
    world.all_terminated(runs[run]);
    world.effects.clear();
    for (std::size_t i = 1; i < 3; ++i) call(i);
  }
}

TEST_F(UnreachableTest, TheTimeOutIsLeftToAgentsOfASlowDaemon) {
  auto spec = spec_of(1, 1);
  spec.timeout = minutes(2);
  testing_world::World one(map_of(1, 1));
  const model::RunId run = one.submit(spec);
  one.all_running(run);
  one.now += minutes(3);
  one.apply_event_ok(one.running(one.node(run, 0)));
  one.apply_event_ok(model::Tick{{}, one.now - seconds(3)});
  EXPECT_EQ(one.attempt(run).cause, model::Cause::none);
}

TEST_F(UnreachableTest, AnUnreachableNodeOfARunThatIsToEndHasItsGracePeriod) {
  auto spec = spec_of(1, 1);
  spec.grace_period = minutes(2);
  testing_world::World one(map_of(1, 1));
  const model::RunId run = one.submit(spec);
  one.all_running(run);
  one.apply_event_ok(model::StopRun{run, ""});
  one.advance_time(minutes(2));
  EXPECT_EQ(one.count<model::KillNode>(), 0);
  one.advance_time(seconds(5));
  EXPECT_EQ(one.count<model::KillNode>(), 1);
}

TEST_F(UnreachableTest, TheTimeOutIsLeftToAgentsThatCannotBeReached) {
  auto spec = spec_of(1, 1);
  spec.timeout = minutes(2);
  testing_world::World one(map_of(1, 1));
  const model::RunId run = one.submit(spec);
  one.all_running(run);
  one.advance_time(minutes(1));
  const auto end = one.ended(one.node(run, 0), model::RankState::exited, 0);
  one.advance_time(minutes(2));
  EXPECT_EQ(one.attempt(run).cause, model::Cause::none);
  one.apply_event_ok(end);
  EXPECT_EQ(one.attempt(run).cause, model::Cause::ok);
}

TEST_F(UnreachableTest, ANewNodeThatDoesNotCallMayBeBehindTheSameFault) {
  pass(seconds(40), 5);
  world.apply_event_ok(model::StopRun{runs[9], ""});
  world.all_terminated(runs[9]);
  const model::RunId late = world.submit(spec_of(1, 1));
  runs.resize(9);
  pass(minutes(5), 5);
  EXPECT_EQ(world.attempt(late).cause, model::Cause::none);
  world.apply_event_ok(world.running(world.node(late, 0)));
  EXPECT_EQ(world.attempt(late).state, model::AttemptState::running);
}

TEST_F(UnreachableTest, ALargeGangThatIsUnreachableLeavesRoomForOtherEvents) {
  testing_world::World large(map_of(20, 1));
  const model::RunId run = large.submit(spec_of(20, 1));
  large.all_running(run);
  large.advance_time(minutes(1));
  for (const model::NodeId& node : large.nodes(run)) large.apply_event_ok(large.running(node));
  EXPECT_EQ(large.run(run).audit.size(), 8u);
  EXPECT_THAT(large.run(run).audit.back(),
              Field(&model::AuditEntry::what, "node 19 on host t is reachable again after 1m"));
}

}  // namespace
}  // namespace lockstep::step
