// A clock that is set: counted time continues, and times that users named stay.
#include <gtest/gtest.h>

#include "platform/core/step/step_world_for_test.h"

namespace lockstep::step {
namespace {

using std::chrono::hours;
using std::chrono::minutes;
using std::chrono::seconds;
using testing_world::agent_gone;
using testing_world::spec_of;

class StepClockTest : public testing_world::StepTest {
 protected:
  StepClockTest() { read(); }
  void read() { world.apply_event_ok(model::ClockChanged{{boot_, zero_}}); }
  void set(Duration by) {
    world.now += by;
    zero_ += by;
    read();
  }
  void boot_again() { boot_ += " again"; }
  // The clock of an agent that starts now, on this machine or on another one.
  model::ClockRow agent_clock() const { return {boot_, zero_}; }
  model::ClockRow clock_elsewhere(Duration ahead) const { return {"another boot", zero_ + ahead}; }
  // Rank 0 of the node exited with this code at that time of the agent's clock.
  model::NodeReport ended(const model::NodeId& node, int code, const model::ClockRow& clock,
                          Time moment) const {
    auto word = world.ended(node, model::RankState::exited, code);
    word.ranks.at(0).ended = moment;
    word.clock = clock;
    return word;
  }
  Time end_of_rank(const model::RunId& run, int node) const {
    return *world.state.nodes.at(world.node(run, node)).ranks.at(0).ended;
  }

 private:
  std::string boot_ = "boot";
  Time zero_ = world.now;
};

TEST_F(StepClockTest, AMonthForwardUsesUpNoTimeLimit) {
  auto spec = spec_of(1, 1);
  spec.timeout = minutes(10);
  const model::RunId run = world.submit(spec);
  lose_a_rank(run);
  world.all_running(run);
  const model::Attempt before = world.attempt(run);
  set(hours(24 * 30));
  EXPECT_EQ(*world.attempt(run).started, *before.started + hours(24 * 30));
  world.apply_event_ok(world.running(world.node(run, 0)));
  world.apply_event_ok(model::Tick{.listening_since = world.now - minutes(1)});
  EXPECT_EQ(world.run(run).state, model::RunState::running);
}

TEST_F(StepClockTest, AMonthForwardForgetsNoLossOfAHost) {
  const model::RunId run = world.submit(spec_of(1, 1));
  world.all_running(run);
  world.apply_event_ok(agent_gone(world.node(run, 0)));
  ASSERT_EQ(world.state.hosts.size(), 1u);
  const Time lost = world.state.hosts.begin()->second.losses.at(0).time;
  set(hours(24 * 30));
  EXPECT_EQ(world.state.hosts.begin()->second.losses.at(0).time, lost + hours(24 * 30));
}

TEST_F(StepClockTest, ARunKeepsItsTurnAndTheMomentThatItsUserNamed) {
  auto later = spec_of(1, 1);
  later.not_before = world.now + hours(2);
  const model::RunId named = world.submit(later);
  const model::RunId first = world.submit(spec_of(2, 2));
  const model::RunId second = world.submit(spec_of(2, 2));
  set(-hours(1));
  const model::RunId third = world.submit(spec_of(2, 2));
  EXPECT_EQ(world.run(named).not_before, later.not_before);
  EXPECT_EQ(world.run(first).state, model::RunState::starting);
  EXPECT_LE(world.run(second).queued, world.run(third).queued);
}

TEST_F(StepClockTest, AnEndIsChargedAsItWasThoughTheClockIsSetBeforeItIsHeardOf) {
  for (const Duration by : {Duration(hours(24 * 30)), Duration(-hours(1))}) {
    const model::RunId run = world.submit(spec_of(1, 1));
    const model::ClockRow clock = agent_clock();
    world.all_running(run);
    const Time end = world.now + minutes(2);
    world.now = end + minutes(5);
    set(by);
    world.apply_event_ok(ended(world.node(run, 0), 3, clock, end));
    EXPECT_EQ(end_of_rank(run, 0), end + by);
    world.all_terminated(run);
    EXPECT_EQ(world.run(run).state, model::RunState::failed);
    EXPECT_EQ(world.run(run).time_used, minutes(2));
  }
}

TEST_F(StepClockTest, TheFirstRankToEndIsTheCauseThoughItsEndIsHeardOfAfterTheClockWasSet) {
  const model::RunId run = world.submit(spec_of(2, 1));
  const model::ClockRow clock = agent_clock();
  world.all_running(run);
  auto killed = ended(world.node(run, 0), 9, clock, world.now + seconds(1));
  killed.ranks.at(0).state = model::RankState::killed;
  world.now += seconds(2);
  world.apply_event_ok(ended(world.node(run, 1), 1, clock, world.now));
  ASSERT_EQ(world.attempt(run).cause, model::Cause::user_exit);
  set(-hours(1));
  world.apply_event_ok(killed);
  EXPECT_EQ(world.attempt(run).cause, model::Cause::rank_lost);
}

TEST_F(StepClockTest, ARankThatHangsAndStandsStillDoesSoSinceTheMomentThatItsAgentTells) {
  const model::RunId run = world.submit(spec_of(1, 1));
  const model::ClockRow clock = agent_clock();
  world.all_running(run);
  auto word = world.running(world.node(run, 0));
  word.clock = clock;
  word.ranks.at(0).activity = model::Activity::stopped;
  word.ranks.at(0).stalled_since = word.ranks.at(0).activity_since = world.now;
  world.now += minutes(1);
  world.apply_event_ok(word);
  const auto rank = [&] { return world.state.nodes.at(world.node(run, 0)).ranks.at(0); };
  set(hours(24 * 30));
  EXPECT_EQ(rank().activity_since, world.now - minutes(1));
  EXPECT_EQ(rank().stalled_since, world.now - minutes(1));
  world.apply_event_ok(word);
  EXPECT_EQ(rank().activity_since, world.now - minutes(1));
  EXPECT_EQ(rank().stalled_since, world.now - minutes(1));
}

TEST_F(StepClockTest, AMomentOfAnotherMachineIsKeptUnlessItLiesInTheFuture) {
  const model::RunId run = world.submit(spec_of(2, 1));
  world.all_running(run);
  world.now += minutes(1);
  const Time early = world.now - seconds(10);
  world.apply_event_ok(ended(world.node(run, 0), 0, clock_elsewhere(-minutes(20)), early));
  world.apply_event_ok(
      ended(world.node(run, 1), 0, clock_elsewhere(minutes(20)), world.now + minutes(20)));
  EXPECT_EQ(end_of_rank(run, 0), early);
  EXPECT_EQ(end_of_rank(run, 1), world.now);
}

// Setting the clock back by an hour must not end it an hour later.
TEST_F(StepClockTest, AnOrphanThatIsToEndHasItsTime) {
  model::Orphan orphan{.id = {std::string(16, 'e'), {{{"act", 1}, 1}, 0}}};
  orphan.devices = {"a", {0}};
  orphan.expected_end = world.now + minutes(50);
  world.apply_event_ok(model::OrphansListed{{orphan}});
  world.apply_event_ok(model::StopOrphan{{"act", 1}, ""});
  world.advance_time(seconds(15));
  set(-hours(1));
  EXPECT_EQ(world.state.orphans.at(orphan.id).expected_end, orphan.expected_end - hours(1));
  EXPECT_EQ(world.count<model::KillOrphan>(), 0);
  world.advance_time(seconds(6));
  EXPECT_EQ(world.count<model::KillOrphan>(), 1);
}

TEST_F(StepClockTest, LessThanASecondIsNoChange) {
  const model::RunId run = world.submit(spec_of(1, 1));
  const Time created = world.attempt(run).created;
  set(std::chrono::milliseconds(900));
  EXPECT_EQ(world.attempt(run).created, created);
}

TEST_F(StepClockTest, AfterAnotherBootNoMomentLiesInTheFuture) {
  const model::RunId run = world.submit(spec_of(1, 1));
  world.all_running(run);
  world.apply_event_ok(model::StopRun{run, ""});
  boot_again();
  set(-hours(1));
  EXPECT_EQ(world.attempt(run).created, world.now);
  EXPECT_EQ(world.attempt(run).draining, world.now);
  EXPECT_EQ(world.state.nodes.at(world.node(run, 0)).last_heartbeat, world.now);
  world.advance_time(seconds(16));
  EXPECT_EQ(world.count<model::KillNode>(), 1);
}

}  // namespace
}  // namespace lockstep::step
