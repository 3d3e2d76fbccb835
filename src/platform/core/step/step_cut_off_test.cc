// Nodes that are silent together with their hosts: dead, or only cut off (docs/design/silence.md).
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "platform/core/step/step_world_for_test.h"

namespace lockstep::step {
namespace {

using std::chrono::minutes;
using std::chrono::seconds;
using ::testing::HasSubstr;
using testing_world::map_of;
using testing_world::spec_of;

using Hosts = std::set<std::string>;

// A run on hosts a and b; the test says which of them call.
class CutOffTest : public ::testing::Test {
 protected:
  CutOffTest() {
    world.state.engine = "hosts";
    run = world.submit(spec_of(2, 1));
    world.all_running(run);
    for (const model::NodeId& node : world.nodes(run))
      world.state.nodes.at(node).agents = {{.id = text(node)}};
  }
  // A minute at a time; the other hosts call, and their ranks take a step each time if `progress`.
  void pass(Duration time, const Hosts& cut_off, bool progress = false) {
    for (Duration passed{}; passed < time; passed += minutes(1)) {
      world.now += minutes(1);
      for (const model::NodeId& node : world.nodes(run))
        if (!cut_off.contains(world.state.nodes.at(node).host)) call(node, progress);
      world.apply_event_ok(model::Tick{.silent_hosts = cut_off});
    }
  }
  void call(const model::NodeId& node, bool progress) {
    auto report = world.running(node);
    if (progress) ++step;
    for (model::Rank& rank : report.ranks) rank.step = step;
    world.apply_event_ok(report);
  }
  model::Cause cause() const { return world.state.attempts.at({run, 1}).cause; }

  testing_world::World world{map_of(2, 1)};
  model::RunId run;
  std::int64_t step = -1;
};

TEST_F(CutOffTest, ACutOfTenMinutesBetweenDaemonAndAllHostsEndsNoRun) {
  pass(minutes(10), {"a", "b"});
  EXPECT_EQ(cause(), model::Cause::none);
  pass(minutes(5), {});
  EXPECT_EQ(cause(), model::Cause::none);
  EXPECT_EQ(world.attempt(run).id.epoch, 1);
  EXPECT_EQ(world.count<model::KillNode>(), 0);
}

TEST_F(CutOffTest, AnAttemptThatIsSilentAsAWholeIsLostAtTheEndOfItsLeaseWithoutBlame) {
  pass(minutes(29), {"a", "b"});
  EXPECT_EQ(cause(), model::Cause::none);
  pass(minutes(1), {"a", "b"});
  EXPECT_EQ(cause(), model::Cause::node_lost);
  EXPECT_THAT(world.state.attempts.at({run, 1}).reason, HasSubstr("was silent for 30m"));
  EXPECT_TRUE(world.state.hosts.empty());
  EXPECT_EQ(world.state.given_up.size(), 2u);
  pass(minutes(2), {"a", "b"});
  EXPECT_TRUE(world.state.given_up.empty()) << "their agents have ended them";
}

TEST_F(CutOffTest, WithALeaseOfItsOwnItIsLostAtTheEndOfThat) {
  world.state.attempts.at({run, 1}).lease = minutes(45);
  pass(minutes(44), {"a", "b"});
  EXPECT_EQ(cause(), model::Cause::none);
  pass(minutes(1), {"a", "b"});
  EXPECT_EQ(cause(), model::Cause::node_lost);
}

TEST_F(CutOffTest, WithoutALeaseItIsNotLost) {
  world.state.attempts.at({run, 1}).lease.reset();
  pass(std::chrono::hours(20), {"a", "b"});
  EXPECT_EQ(cause(), model::Cause::none);
}

TEST_F(CutOffTest, AShorterLeaseThanLostAfterChangesNothing) {
  world.state.attempts.at({run, 1}).lease = minutes(1);
  world.state.settings.widespread_percent = 100;  // no more than half of the nodes is silent
  pass(minutes(4), {"b"}, true);
  EXPECT_EQ(cause(), model::Cause::none);
  pass(minutes(1), {"b"}, true);
  EXPECT_EQ(cause(), model::Cause::node_lost);
}

TEST_F(CutOffTest, ANodeIsNotLostWhileTheOthersMakeProgress) {
  pass(minutes(10), {"b"}, true);
  EXPECT_EQ(cause(), model::Cause::none);
  pass(minutes(4), {"b"});
  EXPECT_EQ(cause(), model::Cause::none) << "their last step was less than 5 min ago";
  pass(minutes(1), {"b"});
  EXPECT_EQ(cause(), model::Cause::node_lost);
}

TEST_F(CutOffTest, ANodeIsLostAtTheEndOfItsLeaseThoughTheOthersMakeProgress) {
  pass(minutes(29), {"b"}, true);
  EXPECT_EQ(cause(), model::Cause::none);
  pass(minutes(1), {"b"}, true);
  EXPECT_EQ(cause(), model::Cause::node_lost);
}

TEST_F(CutOffTest, ANodeThatIsSilentAloneIsLostAsBefore) {
  pass(minutes(4), {"b"});
  EXPECT_EQ(cause(), model::Cause::none);
  pass(minutes(1), {"b"});
  EXPECT_EQ(cause(), model::Cause::node_lost);
  EXPECT_EQ(world.state.hosts.at("b").losses.size(), 1u);
}

TEST_F(CutOffTest, AnAgentThatIsSilentOnAHostThatAnswersIsLostAsBefore) {
  testing_world::World one(map_of(1, 1));
  const model::RunId single = one.submit(spec_of(1, 1));
  one.all_running(single);
  one.advance_time(minutes(5));
  EXPECT_EQ(one.attempt(single).cause, model::Cause::node_lost);
}

TEST_F(CutOffTest, AnAttemptThatIsToEndDoesNotWaitForSilentHostsEvenIfManyAreSilent) {
  pass(minutes(1), {"a", "b"});
  world.apply_event_ok(model::StopRun{run, "enough"});
  world.now += seconds(15);
  world.apply_event_ok(model::Tick{.silent_hosts = {"a", "b"}});
  EXPECT_EQ(world.run(run).state, model::RunState::cancelled);
  EXPECT_EQ(world.state.given_up.size(), 2u);
}

}  // namespace
}  // namespace lockstep::step
