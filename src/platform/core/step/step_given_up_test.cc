// Attempts whose last nodes are on hosts that do not answer (docs/design/dead-hosts.md).
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "platform/core/step/ending/removal.h"
#include "platform/core/step/step_world_for_test.h"

namespace lockstep::step {
namespace {

using std::chrono::minutes;
using std::chrono::seconds;
using ::testing::HasSubstr;
using testing_world::map_of;
using testing_world::node_gone;
using testing_world::spec_of;

// Three hosts of two devices each; the run is on a and b.
class GivenUpTest : public ::testing::Test {
 protected:
  GivenUpTest() {
    auto spec = spec_of(2, 2);
    spec.rank_loss_retries = 3;
    run = world.submit(spec);
    world.all_running(run);
  }

  void tick(Duration passed, const std::set<std::string>& silent_hosts) {
    world.now += passed;
    world.apply_event_ok(model::Tick{.silent_hosts = silent_hosts});
  }
  // Host b dies: a rank on host a loses its connection and fails.
  void lose_host_b() {
    world.apply_event_ok(world.ended(world.node(run, 0), model::RankState::killed, 9));
    world.apply_event_ok(node_gone(world.node(run, 0)));
  }
  void give_up_host_b() {
    lose_host_b();
    tick(seconds(30), {"b"});
    ASSERT_TRUE(world.state.given_up.contains(lost));
    ASSERT_EQ(world.run(run).epoch, 2);
  }
  std::vector<std::string> events() const {
    std::vector<std::string> events;
    for (const model::AuditEntry& entry : world.run(run).audit) events.push_back(entry.what);
    return events;
  }
  int kills_of(const model::NodeId& node) const {
    return static_cast<int>(
        std::ranges::count(world.effects, model::Effect(model::KillNode{node})));
  }

  testing_world::World world{map_of(3, 2)};
  model::RunId run;
  const model::NodeId lost{{{"demo", 1}, 1}, 1};
};

TEST_F(GivenUpTest, TheNextAttemptStartsElsewhereWithoutTheHostThatDoesNotAnswer) {
  world.apply_event_ok(model::HostsSeen{{{"b", "it is silent"}}});
  lose_host_b();
  tick(seconds(14), {"b"});
  EXPECT_EQ(world.run(run).epoch, 1) << "its node may still end its ranks";
  tick(seconds(1), {"b"});
  EXPECT_EQ(world.run(run).epoch, 2);
  EXPECT_EQ(world.state.attempts.at({run, 1}).state, model::AttemptState::ended);
  EXPECT_EQ(world.state.nodes.at(world.node(run, 0)).host, "a");
  EXPECT_EQ(world.state.nodes.at(world.node(run, 1)).host, "c");
  EXPECT_EQ(world.state.nodes.at(lost).state, model::NodeState::lost);
  EXPECT_EQ(world.state.nodes.at(lost).ranks.at(0).state, model::RankState::lost);
  EXPECT_EQ(world.state.given_up.at(lost).devices, (model::HostDevices{"b", {0, 1}}));
  EXPECT_EQ(model::command_for(world.state, {"", lost}).kind, model::CommandKind::leave);
  EXPECT_THAT(events(), ::testing::Contains(HasSubstr("attempt 1 ended without node 1 on host b")));
}

TEST_F(GivenUpTest, AHostThatAnswersIsWaitedFor) {
  lose_host_b();
  tick(seconds(60), {"c"});
  EXPECT_EQ(world.run(run).epoch, 1);
  EXPECT_EQ(kills_of(lost), 1);
  world.apply_event_ok(node_gone(lost));
  EXPECT_EQ(world.run(run).epoch, 2);
  EXPECT_TRUE(world.state.given_up.empty());
}

TEST_F(GivenUpTest, TheOtherNodesOfTheAttemptAreWaitedFor) {
  world.apply_event_ok(world.ended(world.node(run, 0), model::RankState::killed, 9));
  tick(seconds(30), {"b"});
  EXPECT_EQ(world.run(run).epoch, 1) << "node 0 may still run, and its host answers";
  world.apply_event_ok(node_gone(world.node(run, 0)));
  tick(seconds(1), {"b"});
  EXPECT_TRUE(world.state.given_up.contains(lost));
}

TEST_F(GivenUpTest, ItsDevicesStayTakenUntilItsHostListsItAsGone) {
  give_up_host_b();
  const model::RunId other = world.submit(spec_of(1, 2));
  EXPECT_THAT(world.run(other).reason, HasSubstr("given-up node of demo/1"));
  EXPECT_EQ(world.run(other).state, model::RunState::queued);
  world.apply_event_ok(node_gone(lost));
  EXPECT_TRUE(world.state.given_up.empty());
  EXPECT_EQ(world.state.nodes.at({{other, 1}, 0}).host, "b");
}

TEST_F(GivenUpTest, ItIsKilledAgainOnceItsHostAnswers) {
  give_up_host_b();
  EXPECT_EQ(kills_of(lost), 1);
  tick(seconds(60), {"b"});
  EXPECT_EQ(kills_of(lost), 1) << "nothing can be said to its host";
  tick(seconds(1), {});
  tick(seconds(1), {});
  EXPECT_EQ(kills_of(lost), 2);
  tick(seconds(4), {});
  EXPECT_EQ(kills_of(lost), 3);
}

TEST_F(GivenUpTest, AStoppedRunEndsWithoutItAndIsNotRemovedBeforeItIsGone) {
  world.apply_event_ok(model::StopRun{run, "enough"});
  world.apply_event_ok(node_gone(world.node(run, 0)));
  tick(seconds(30), {"b"});
  EXPECT_EQ(world.run(run).state, model::RunState::cancelled);
  EXPECT_THAT(check_removable(world.state, run, {}).error().message,
              HasSubstr("may still run on host b"));
  world.apply_event_ok(node_gone(lost));
  EXPECT_TRUE(check_removable(world.state, run, {}));
}

TEST_F(GivenUpTest, ALateReportOfItChangesNothing) {
  give_up_host_b();
  const model::State before = world.state;
  world.apply_event_ok(world.ended(lost, model::RankState::exited, 0));
  EXPECT_EQ(world.state.nodes, before.nodes);
  EXPECT_EQ(world.state.given_up, before.given_up);
}

TEST_F(GivenUpTest, ItIsGoneWhenItsAgentHasCertainlyEndedIt) {
  world.state.attempts.at({run, 1}).lease = minutes(30);
  world.state.nodes.at(lost).agents = {{.id = "a1"}};
  give_up_host_b();
  const auto limit = minutes(30) + seconds(10) + minutes(1);  // lease, grace period, margin
  EXPECT_EQ(world.state.given_up.at(lost).gone_after, limit);
  tick(limit - seconds(31), {"b"});
  EXPECT_TRUE(world.state.given_up.contains(lost));
  tick(seconds(1), {"b"});
  EXPECT_TRUE(world.state.given_up.empty());
}

TEST_F(GivenUpTest, WithoutALeaseItIsNeverTakenForGone) {
  give_up_host_b();
  tick(std::chrono::hours(1000), {"b"});
  EXPECT_TRUE(world.state.given_up.contains(lost));
}

TEST_F(GivenUpTest, TheLeaseOfAnAgentThatNeverCalledCountsFromWhenItsNodeWasGivenUp) {
  auto spec = spec_of(1, 2);
  spec.lease = minutes(5);
  const model::RunId other = world.submit(spec);
  const Time begun = world.now;
  world.now += seconds(60);
  for (const model::NodeId& node : world.nodes(run)) world.apply_event_ok(world.running(node));
  tick({}, {"c"});
  const model::GivenUpNode& node = world.state.given_up.at({{other, 1}, 0});
  EXPECT_EQ(node.last_call, begun + seconds(60));
  EXPECT_EQ(node.gone_after, minutes(5) + seconds(10) + minutes(1));
}

TEST_F(GivenUpTest, TheLeaseIsOfTheRunElseASettingForOtherMachines) {
  const auto lease_with = [](const std::string& engine, std::optional<Duration> own) {
    testing_world::World one(map_of(1, 1));
    one.state.engine = engine;
    auto spec = spec_of(1, 1);
    spec.lease = own;
    return one.attempt(one.submit(spec)).lease;
  };
  EXPECT_EQ(lease_with("hosts", std::nullopt), minutes(30));
  EXPECT_EQ(lease_with("local", std::nullopt), std::nullopt);
  EXPECT_EQ(lease_with("local", minutes(2)), minutes(2));
  EXPECT_EQ(lease_with("hosts", Duration(0)), std::nullopt);
}

TEST_F(GivenUpTest, ALeaseThatAnAgentCannotKeepIsRefused) {
  auto spec = spec_of(1, 1);
  spec.lease = seconds(29);
  const auto refused = world.apply_event(model::SubmitRun{spec, {}});
  ASSERT_FALSE(refused);
  EXPECT_THAT(refused.error().message, HasSubstr("lease: must be 0s (never), or at least 30s"));
}

// The daemon was away for longer than the lease.
TEST_F(GivenUpTest, AnAgentThatEndedWithItsLeaseIsNoFaultOfItsHost) {
  world.state.attempts.at({run, 1}).lease = minutes(30);
  world.now += minutes(40);
  world.apply_event_ok(node_gone(lost));
  EXPECT_EQ(world.attempt(run).cause, model::Cause::node_lost);
  EXPECT_THAT(world.attempt(run).reason, HasSubstr("did not reach the daemon for 30m, its lease"));
  EXPECT_TRUE(world.state.hosts.empty());
}

TEST_F(GivenUpTest, ANodeThatCountedAsGoneAndHasProcessesIsKilledAndHoldsItsDevices) {
  give_up_host_b();
  world.apply_event_ok(node_gone(lost));
  world.effects.clear();
  world.apply_event_ok(model::NodeSeen{lost, {.phase = model::NodePhase::present}});
  EXPECT_TRUE(world.state.given_up.contains(lost));
  tick(seconds(1), {});
  EXPECT_EQ(kills_of(lost), 1);
  const model::RunId other = world.submit(spec_of(1, 2));
  EXPECT_EQ(world.run(other).state, model::RunState::queued);
  world.apply_event_ok(node_gone(lost));
  EXPECT_EQ(world.run(other).state, model::RunState::starting);
}

// Its host may have other devices since, and the node's row names those of before, by index.
TEST_F(GivenUpTest, ANodeThatCountedAsGoneAndHasProcessesHoldsAllDevicesOfItsHost) {
  const model::RunId small = world.submit(spec_of(1, 1));
  world.all_running(small);
  const model::NodeId node = world.node(small, 0);
  ASSERT_EQ(world.state.nodes.at(node).host, "c");
  world.apply_event_ok(node_gone(node));
  world.apply_event_ok(model::NodeSeen{node, {.phase = model::NodePhase::present}});
  EXPECT_EQ(world.state.given_up.at(node).devices, (model::HostDevices{"c", {0, 1}}));
}

// The head cannot start when the attempt ends, because the node's devices are not free then.
TEST_F(GivenUpTest, ANodeFoundAgainWhileItsAttemptDrainsHoldsItsDevicesBeyondTheAttempt) {
  world.apply_event_ok(node_gone(lost));
  ASSERT_EQ(world.attempt(run).state, model::AttemptState::draining);
  world.now += seconds(10);
  world.apply_event_ok(model::NodeSeen{lost, {.phase = model::NodePhase::present}});
  const model::RunId head = world.submit(spec_of(3, 2));
  EXPECT_THAT(world.run(head).reason, HasSubstr("given-up node of demo/1"));
}

TEST_F(GivenUpTest, AClockThatIsSetMovesItsTimes) {
  give_up_host_b();
  const model::GivenUpNode before = world.state.given_up.at(lost);
  const model::ClockRow clock{"boot", Time(seconds(100))};
  world.apply_event_ok(model::ClockChanged{clock});
  world.now += seconds(1000);
  world.apply_event_ok(model::ClockChanged{{"boot", clock.zero + seconds(1000)}});
  const model::GivenUpNode& after = world.state.given_up.at(lost);
  EXPECT_EQ(after.last_call, before.last_call + seconds(1000));
  EXPECT_EQ(after.since, before.since + seconds(1000));
}

}  // namespace
}  // namespace lockstep::step
