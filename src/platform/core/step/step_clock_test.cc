// A clock that is set: what is counted in time goes on, and what people named stays.
#include <gtest/gtest.h>

#include "platform/core/step/step_world_for_test.h"

namespace lockstep {
namespace {

using std::chrono::hours;
using std::chrono::minutes;
using std::chrono::seconds;
using testing_world::spec_of;

class StepClockTest : public testing_world::StepTest {
 protected:
  StepClockTest() { read(); }
  void read() { world.must(ClockRead{{boot_, zero_}}); }
  void set(Duration by) {
    world.now += by;
    zero_ += by;
    read();
  }
  void boot_again() { boot_ += " again"; }

 private:
  std::string boot_ = "boot";
  Time zero_ = world.now;
};

TEST_F(StepClockTest, AMonthForwardUsesUpNoTimeLimit) {
  auto spec = spec_of(1, 1);
  spec.timeout = minutes(10);
  const RunId run = world.submit(spec);
  lose_a_rank(run);
  world.all_running(run);
  const Attempt before = world.attempt(run);
  set(hours(24 * 30));
  EXPECT_EQ(*world.attempt(run).started, *before.started + hours(24 * 30));
  world.must(world.running(world.node(run, 0)));
  world.must(Tick{.listening_since = world.now - minutes(1)});
  EXPECT_EQ(world.run(run).state, RunState::running);
}

TEST_F(StepClockTest, AMonthForwardForgetsNoLossOfAHost) {
  const RunId run = world.submit(spec_of(1, 1));
  world.all_running(run);
  world.must(AgentGone{world.node(run, 0)});
  ASSERT_EQ(world.state.hosts.size(), 1u);
  const Time lost = world.state.hosts.begin()->second.losses.at(0).time;
  set(hours(24 * 30));
  EXPECT_EQ(world.state.hosts.begin()->second.losses.at(0).time, lost + hours(24 * 30));
}

TEST_F(StepClockTest, ARunKeepsItsTurnAndTheMomentThatItsUserNamed) {
  auto later = spec_of(1, 1);
  later.not_before = world.now + hours(2);
  const RunId named = world.submit(later);
  const RunId first = world.submit(spec_of(2, 2));
  const RunId second = world.submit(spec_of(2, 2));
  set(-hours(1));
  const RunId third = world.submit(spec_of(2, 2));
  EXPECT_EQ(world.run(named).not_before, later.not_before);
  EXPECT_EQ(world.run(first).state, RunState::starting);
  EXPECT_LE(world.run(second).queued, world.run(third).queued);
}

// An hour back must not have it end an hour later.
TEST_F(StepClockTest, AnOrphanThatIsToEndHasItsTime) {
  Orphan orphan{.id = {std::string(16, 'e'), {{{"act", 1}, 1}, 0}}};
  orphan.slice = {"a", {0}};
  orphan.ends = world.now + minutes(50);
  world.must(OrphansSeen{{orphan}});
  world.must(StopOrphan{{"act", 1}, ""});
  world.pass_time(seconds(15));
  set(-hours(1));
  EXPECT_EQ(world.state.orphans.at(orphan.id).ends, orphan.ends - hours(1));
  EXPECT_EQ(world.count<KillOrphan>(), 0);
  world.pass_time(seconds(6));
  EXPECT_EQ(world.count<KillOrphan>(), 1);
}

TEST_F(StepClockTest, LessThanASecondIsNoChange) {
  const RunId run = world.submit(spec_of(1, 1));
  const Time created = world.attempt(run).created;
  set(std::chrono::milliseconds(900));
  EXPECT_EQ(world.attempt(run).created, created);
}

TEST_F(StepClockTest, AfterAnotherBootNoMomentLiesInTheFuture) {
  const RunId run = world.submit(spec_of(1, 1));
  world.all_running(run);
  world.must(StopRun{run, ""});
  boot_again();
  set(-hours(1));
  EXPECT_EQ(world.attempt(run).created, world.now);
  EXPECT_EQ(world.attempt(run).draining, world.now);
  EXPECT_EQ(world.state.nodes.at(world.node(run, 0)).last_heard, world.now);
  world.pass_time(seconds(16));
  EXPECT_EQ(world.count<KillNode>(), 1);
}

}  // namespace
}  // namespace lockstep
