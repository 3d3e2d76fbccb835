// Runs that leave their devices for others: moved, paused, evicted, off a drained host; and how
// they continue.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "platform/core/step/starting/dry_run.h"
#include "platform/core/step/step_world_for_test.h"

namespace lockstep::step {
namespace {

using std::chrono::hours;
using std::chrono::minutes;
using std::chrono::seconds;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using testing_world::spec_of;

// Two hosts of two devices each, a and b.
class StepDepartureTest : public testing_world::StepTest {
 protected:
  // All its ranks run, and a checkpoint is complete.
  void save(const model::RunId& run) {
    world.all_running(run);
    auto word = world.running(world.node(run, 0));
    word.last_checkpoint = world.now;
    world.apply_event_ok(word);
  }
  model::RunId start(const model::RunSpec& spec) {
    const model::RunId run = world.submit(spec);
    save(run);
    return run;
  }
  void stop(const model::RunId& run) {
    world.apply_event_ok(model::StopRun{run, ""});
    world.all_terminated(run);
  }
  // A run of one device on each host, and the other device of each is free.
  std::pair<model::RunId, model::RunId> scatter(const model::RunSpec& spec) {
    const model::RunId first = world.submit(spec);
    const model::RunId between = world.submit(spec_of(1, 1));
    const model::RunId second = world.submit(spec);
    stop(between);
    EXPECT_EQ(host_of(first), "a");
    EXPECT_EQ(host_of(second), "b");
    return {first, second};
  }
  std::string host_of(const model::RunId& run) {
    return world.state.nodes.at(world.node(run, 0)).host;
  }
  // Fills host a for a long time.
  model::RunId long_one() {
    auto spec = spec_of(1, 2);
    spec.timeout = hours(100);
    const model::RunId run = world.submit(spec);
    EXPECT_EQ(host_of(run), "a");
    world.all_running(run);
    world.submit(spec_of(1, 2));  // and b is full, too
    return run;
  }
};

TEST_F(StepDepartureTest, ASmallRunIsMovedToMakeRoomForAHead) {
  const auto [small, other] = scatter(spec_of(1, 1));
  save(small);
  const model::RunId head = world.submit(spec_of(1, 2));
  EXPECT_EQ(world.attempt(small).cause, model::Cause::moved);
  EXPECT_THAT(world.attempt(small).reason,
              AllOf(HasSubstr("moved from host a"), HasSubstr("demo/4")));
  EXPECT_EQ(world.attempt(small).move_destination, (std::vector<model::HostDevices>{{"b", {1}}}));
  EXPECT_EQ(command(small, 0), model::CommandKind::stop);
  EXPECT_THAT(world.run(head).reason, HasSubstr("waits for demo/1"));
  const model::RunId late = world.submit(spec_of(1, 1));
  EXPECT_EQ(world.run(late).state, model::RunState::queued) << "b is kept for whom it moves to";

  drain(small);
  EXPECT_EQ(world.run(head).state, model::RunState::starting);
  EXPECT_EQ(host_of(head), "a");
  EXPECT_EQ(world.run(small).state, model::RunState::starting);
  EXPECT_EQ(host_of(small), "b");
  EXPECT_EQ(world.run(small).epoch, 2);
  EXPECT_THAT(world.run(small).reason, AllOf(HasSubstr("moved from host a"), HasSubstr("demo/4"),
                                             HasSubstr("attempt 2"), HasSubstr("checkpoint")));
  EXPECT_EQ(world.run(small).moves, 1);
  EXPECT_EQ(world.run(small).losses, 0);
  EXPECT_THAT(world.run(small).audit.back().what,
              AllOf(HasSubstr("moved from host a"), HasSubstr("demo/4")));
  EXPECT_THAT(world.state.hosts, IsEmpty()) << "the host is not to blame";
}

TEST_F(StepDepartureTest, ARunIsNotMovedToDevicesThatAnOrphanUses) {
  const auto [small, other] = scatter(spec_of(1, 1));
  save(small);
  world.submit(spec_of(1, 2));
  ASSERT_EQ(world.attempt(small).move_destination, (std::vector<model::HostDevices>{{"b", {1}}}));
  const model::Orphan orphan{.id = {std::string(16, 'e'), {{{"act", 1}, 1}, 0}},
                             .devices = {"b", {1}},
                             .expected_end = world.now + minutes(50)};
  world.apply_event_ok(model::OrphansListed{{orphan}});
  drain(small);
  EXPECT_EQ(world.run(small).epoch, 2);
  EXPECT_EQ(host_of(small), "a");
}

TEST_F(StepDepartureTest, ARunIsMovedOnceItHasWrittenACheckpointWhereItIs) {
  const auto [small, other] = scatter(spec_of(1, 1));
  world.all_running(small);
  const model::RunId head = world.submit(spec_of(1, 2));
  world.advance_time(seconds(20));
  EXPECT_EQ(world.attempt(small).cause, model::Cause::none);
  save(small);
  EXPECT_EQ(world.attempt(small).cause, model::Cause::moved);
  EXPECT_EQ(world.run(head).state, model::RunState::queued);
}

TEST_F(StepDepartureTest, ARunThatStaysIsNotMoved) {
  auto spec = spec_of(1, 1);
  spec.stays = true;
  const auto [small, other] = scatter(spec);
  save(small);
  save(other);
  world.submit(spec_of(1, 2));
  EXPECT_EQ(world.attempt(small).cause, model::Cause::none);
  EXPECT_EQ(world.attempt(other).cause, model::Cause::none);
}

TEST_F(StepDepartureTest, ARunIsMovedThreeTimesAtMost) {
  const auto [small, other] = scatter(spec_of(1, 1));
  save(small);
  world.state.runs.at(small).moves = model::kMovesMax;
  world.submit(spec_of(1, 2));
  EXPECT_EQ(world.attempt(small).cause, model::Cause::none);
  world.state.runs.at(small).moves = model::kMovesMax - 1;
  world.submit(spec_of(1, 2));
  EXPECT_EQ(world.attempt(small).cause, model::Cause::moved);
  EXPECT_EQ(world.run(small).moves, model::kMovesMax);
}

TEST_F(StepDepartureTest, APreemptibleRunIsEvictedForAnyOtherAndGoesOnLater) {
  auto spec = spec_of(2, 2);
  spec.run_class = model::RunClass::preemptible;
  const model::RunId preemptible = world.submit(spec);
  world.all_running(preemptible);
  const model::RunId other = world.submit(spec_of(1, 1));
  EXPECT_EQ(world.attempt(preemptible).cause, model::Cause::evicted);
  EXPECT_THAT(world.run(preemptible).reason, AllOf(HasSubstr("evicted"), HasSubstr("demo/2")));
  EXPECT_EQ(world.run(other).state, model::RunState::queued);
  drain(preemptible);
  EXPECT_EQ(world.run(other).state, model::RunState::starting);
  EXPECT_EQ(world.run(preemptible).state, model::RunState::queued);
  EXPECT_THAT(world.run(preemptible).reason, HasSubstr("waits for demo/2"));
  stop(other);
  EXPECT_EQ(world.run(preemptible).state, model::RunState::starting);
  EXPECT_THAT(world.run(preemptible).reason,
              AllOf(HasSubstr("evicted"), HasSubstr("demo/2"), HasSubstr("attempt 2")));
  EXPECT_EQ(world.run(preemptible).losses, 0);
}

TEST_F(StepDepartureTest, ARunThatStandsBehindPausesForOneThatNeedsWholeHosts) {
  const model::RunId paused = long_one();
  world.now += minutes(29);
  save(paused);
  const model::RunId head = world.submit(spec_of(1, 2));
  EXPECT_EQ(world.attempt(paused).cause, model::Cause::none) << "it has not run for long enough";
  world.now += minutes(1);
  save(paused);
  EXPECT_EQ(world.attempt(paused).cause, model::Cause::paused);
  EXPECT_THAT(world.run(paused).reason, AllOf(HasSubstr("paused"), HasSubstr("demo/3")));
  drain(paused);
  EXPECT_EQ(world.run(head).state, model::RunState::starting);
  EXPECT_EQ(world.run(paused).state, model::RunState::queued);
  EXPECT_EQ(world.run(paused).moves, 0);
  EXPECT_EQ(world.run(paused).time_used, Duration(minutes(30)));
}

TEST_F(StepDepartureTest, NobodyPausesForARunThatHeStandsAheadOf) {
  const model::RunId running = long_one();
  world.now += minutes(31);
  save(running);
  world.apply_event_ok(
      model::SetPriority{running, 5, "ann"});  // of one project: it is ahead of the head
  world.submit(spec_of(1, 2));
  EXPECT_EQ(world.attempt(running).cause, model::Cause::none);
}

TEST_F(StepDepartureTest, ADrainedHostEmptiesAsItsRunsAreMoved) {
  const auto [small, other] = scatter(spec_of(1, 1));
  world.apply_event_ok(model::SetHost{"a", model::HostState::drained, "ann", "its fan is loud"});
  EXPECT_EQ(world.attempt(small).cause, model::Cause::none) << "it would begin anew";
  save(small);
  EXPECT_THAT(world.run(small).reason, AllOf(HasSubstr("moved off host a"), HasSubstr("drained")));
  drain(small);
  EXPECT_EQ(host_of(small), "b");
}

TEST_F(StepDepartureTest, OneThatEndsWellBeforeItIsToldHasSucceeded) {
  const auto [small, other] = scatter(spec_of(1, 1));
  save(small);
  const model::RunId head = world.submit(spec_of(1, 2));
  ASSERT_EQ(world.attempt(small).cause, model::Cause::moved);
  world.apply_event_ok(world.ended(world.node(small, 0), model::RankState::exited, 0));
  world.all_terminated(small);
  EXPECT_EQ(world.run(small).state, model::RunState::succeeded);
  EXPECT_EQ(world.run(head).state, model::RunState::starting);
}

TEST_F(StepDepartureTest, OneThatIsStoppedMeanwhileIsCancelledAndLeavesWhatWasKeptForIt) {
  const auto [small, other] = scatter(spec_of(1, 1));
  save(small);
  world.submit(spec_of(1, 2));
  const model::RunId waits = world.submit(spec_of(1, 1));
  world.apply_event_ok(model::StopRun{small, "enough"});
  drain(small);
  EXPECT_EQ(world.run(small).state, model::RunState::cancelled);
  EXPECT_EQ(world.run(waits).state, model::RunState::starting);
  EXPECT_EQ(host_of(waits), "b");
}

TEST_F(StepDepartureTest, OneWhoseNextHostWasClosedMeanwhileWaitsAgain) {
  const auto [small, other] = scatter(spec_of(1, 1));
  save(small);
  world.submit(spec_of(1, 2));
  world.apply_event_ok(model::SetHost{"b", model::HostState::closed, "ann", ""});
  drain(small);
  EXPECT_EQ(host_of(small), "a") << "it stands where it stood, ahead of the head";
  EXPECT_EQ(world.run(small).epoch, 2);
}

TEST_F(StepDepartureTest, AProspectSaysWhoWouldHaveToLeave) {
  const auto [small, other] = scatter(spec_of(1, 1));
  save(small);
  const auto prospect = dry_run(world.state, {spec_of(1, 2), {}}, world.now);
  ASSERT_TRUE(prospect);
  EXPECT_EQ(prospect->blocker, small);
  ASSERT_EQ(prospect->preempted.size(), 1u);
  EXPECT_EQ(prospect->preempted[0].run, small);
  EXPECT_EQ(prospect->preempted[0].cause, model::Cause::moved);
  EXPECT_EQ(prospect->preempted[0].from, "a");
  EXPECT_EQ(prospect->preempted[0].destination[0].host, "b");
  EXPECT_EQ(world.attempt(small).cause, model::Cause::none);
}

}  // namespace
}  // namespace lockstep::step
