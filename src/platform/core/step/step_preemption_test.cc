// Runs that leave their devices for others: moved, paused, evicted, off a drained host; and how
// they continue.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "platform/core/step/starting/dry_run.h"
#include "platform/core/step/step_world_for_test.h"

namespace lockstep {
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
  void save(const RunId& run) {
    world.all_running(run);
    auto word = world.running(world.node(run, 0));
    word.last_checkpoint = world.now;
    world.apply_event_ok(word);
  }
  RunId start(const RunSpec& spec) {
    const RunId run = world.submit(spec);
    save(run);
    return run;
  }
  void stop(const RunId& run) {
    world.apply_event_ok(StopRun{run, ""});
    world.all_terminated(run);
  }
  // A run of one device on each host, and the other device of each is free.
  std::pair<RunId, RunId> scatter(const RunSpec& spec) {
    const RunId first = world.submit(spec);
    const RunId between = world.submit(spec_of(1, 1));
    const RunId second = world.submit(spec);
    stop(between);
    EXPECT_EQ(host_of(first), "a");
    EXPECT_EQ(host_of(second), "b");
    return {first, second};
  }
  std::string host_of(const RunId& run) { return world.state.nodes.at(world.node(run, 0)).host; }
  // Fills host a for a long time.
  RunId long_one() {
    auto spec = spec_of(1, 2);
    spec.timeout = hours(100);
    const RunId run = world.submit(spec);
    EXPECT_EQ(host_of(run), "a");
    world.all_running(run);
    world.submit(spec_of(1, 2));  // and b is full, too
    return run;
  }
};

TEST_F(StepDepartureTest, ASmallRunIsMovedToMakeRoomForAHead) {
  const auto [small, other] = scatter(spec_of(1, 1));
  save(small);
  const RunId head = world.submit(spec_of(1, 2));
  EXPECT_EQ(world.attempt(small).cause, Cause::moved);
  EXPECT_THAT(world.attempt(small).reason,
              AllOf(HasSubstr("moved from host a"), HasSubstr("demo/4")));
  EXPECT_EQ(world.attempt(small).move_destination, (std::vector<HostDevices>{{"b", {1}}}));
  EXPECT_EQ(command(small, 0), CommandKind::stop);
  EXPECT_THAT(world.run(head).reason, HasSubstr("waits for demo/1"));
  const RunId late = world.submit(spec_of(1, 1));
  EXPECT_EQ(world.run(late).state, RunState::queued) << "b is kept for whom it moves to";

  drain(small);
  EXPECT_EQ(world.run(head).state, RunState::starting);
  EXPECT_EQ(host_of(head), "a");
  EXPECT_EQ(world.run(small).state, RunState::starting);
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

TEST_F(StepDepartureTest, ARunIsMovedOnceItHasWrittenACheckpointWhereItIs) {
  const auto [small, other] = scatter(spec_of(1, 1));
  world.all_running(small);
  const RunId head = world.submit(spec_of(1, 2));
  world.advance_time(seconds(20));
  EXPECT_EQ(world.attempt(small).cause, Cause::none);
  save(small);
  EXPECT_EQ(world.attempt(small).cause, Cause::moved);
  EXPECT_EQ(world.run(head).state, RunState::queued);
}

TEST_F(StepDepartureTest, ARunThatStaysIsNotMoved) {
  auto spec = spec_of(1, 1);
  spec.stays = true;
  const auto [small, other] = scatter(spec);
  save(small);
  save(other);
  world.submit(spec_of(1, 2));
  EXPECT_EQ(world.attempt(small).cause, Cause::none);
  EXPECT_EQ(world.attempt(other).cause, Cause::none);
}

TEST_F(StepDepartureTest, ARunIsMovedThreeTimesAtMost) {
  const auto [small, other] = scatter(spec_of(1, 1));
  save(small);
  world.state.runs.at(small).moves = kMovesMax;
  world.submit(spec_of(1, 2));
  EXPECT_EQ(world.attempt(small).cause, Cause::none);
  world.state.runs.at(small).moves = kMovesMax - 1;
  world.submit(spec_of(1, 2));
  EXPECT_EQ(world.attempt(small).cause, Cause::moved);
  EXPECT_EQ(world.run(small).moves, kMovesMax);
}

TEST_F(StepDepartureTest, APreemptibleRunIsEvictedForAnyOtherAndGoesOnLater) {
  auto spec = spec_of(2, 2);
  spec.run_class = RunClass::preemptible;
  const RunId preemptible = world.submit(spec);
  world.all_running(preemptible);
  const RunId other = world.submit(spec_of(1, 1));
  EXPECT_EQ(world.attempt(preemptible).cause, Cause::evicted);
  EXPECT_THAT(world.run(preemptible).reason, AllOf(HasSubstr("evicted"), HasSubstr("demo/2")));
  EXPECT_EQ(world.run(other).state, RunState::queued);
  drain(preemptible);
  EXPECT_EQ(world.run(other).state, RunState::starting);
  EXPECT_EQ(world.run(preemptible).state, RunState::queued);
  EXPECT_THAT(world.run(preemptible).reason, HasSubstr("waits for demo/2"));
  stop(other);
  EXPECT_EQ(world.run(preemptible).state, RunState::starting);
  EXPECT_THAT(world.run(preemptible).reason,
              AllOf(HasSubstr("evicted"), HasSubstr("demo/2"), HasSubstr("attempt 2")));
  EXPECT_EQ(world.run(preemptible).losses, 0);
}

TEST_F(StepDepartureTest, ARunThatStandsBehindPausesForOneThatNeedsWholeHosts) {
  const RunId paused = long_one();
  world.now += minutes(29);
  save(paused);
  const RunId head = world.submit(spec_of(1, 2));
  EXPECT_EQ(world.attempt(paused).cause, Cause::none) << "it has not run for long enough";
  world.now += minutes(1);
  save(paused);
  EXPECT_EQ(world.attempt(paused).cause, Cause::paused);
  EXPECT_THAT(world.run(paused).reason, AllOf(HasSubstr("paused"), HasSubstr("demo/3")));
  drain(paused);
  EXPECT_EQ(world.run(head).state, RunState::starting);
  EXPECT_EQ(world.run(paused).state, RunState::queued);
  EXPECT_EQ(world.run(paused).moves, 0);
  EXPECT_EQ(world.run(paused).time_used, Duration(minutes(30)));
}

TEST_F(StepDepartureTest, NobodyPausesForARunThatHeStandsAheadOf) {
  const RunId running = long_one();
  world.now += minutes(31);
  save(running);
  world.apply_event_ok(SetPriority{running, 5, "ann"});  // of one project: it is ahead of the head
  world.submit(spec_of(1, 2));
  EXPECT_EQ(world.attempt(running).cause, Cause::none);
}

TEST_F(StepDepartureTest, ADrainedHostEmptiesAsItsRunsAreMoved) {
  const auto [small, other] = scatter(spec_of(1, 1));
  world.apply_event_ok(SetHost{"a", HostState::drained, "ann", "its fan is loud"});
  EXPECT_EQ(world.attempt(small).cause, Cause::none) << "it would begin anew";
  save(small);
  EXPECT_THAT(world.run(small).reason, AllOf(HasSubstr("moved off host a"), HasSubstr("drained")));
  drain(small);
  EXPECT_EQ(host_of(small), "b");
}

TEST_F(StepDepartureTest, OneThatEndsWellBeforeItIsToldHasSucceeded) {
  const auto [small, other] = scatter(spec_of(1, 1));
  save(small);
  const RunId head = world.submit(spec_of(1, 2));
  ASSERT_EQ(world.attempt(small).cause, Cause::moved);
  world.apply_event_ok(world.ended(world.node(small, 0), RankState::exited, 0));
  world.all_terminated(small);
  EXPECT_EQ(world.run(small).state, RunState::succeeded);
  EXPECT_EQ(world.run(head).state, RunState::starting);
}

TEST_F(StepDepartureTest, OneThatIsStoppedMeanwhileIsCancelledAndLeavesWhatWasKeptForIt) {
  const auto [small, other] = scatter(spec_of(1, 1));
  save(small);
  world.submit(spec_of(1, 2));
  const RunId waits = world.submit(spec_of(1, 1));
  world.apply_event_ok(StopRun{small, "enough"});
  drain(small);
  EXPECT_EQ(world.run(small).state, RunState::cancelled);
  EXPECT_EQ(world.run(waits).state, RunState::starting);
  EXPECT_EQ(host_of(waits), "b");
}

TEST_F(StepDepartureTest, OneWhoseNextHostWasClosedMeanwhileWaitsAgain) {
  const auto [small, other] = scatter(spec_of(1, 1));
  save(small);
  world.submit(spec_of(1, 2));
  world.apply_event_ok(SetHost{"b", HostState::closed, "ann", ""});
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
  EXPECT_EQ(prospect->preempted[0].cause, Cause::moved);
  EXPECT_EQ(prospect->preempted[0].from, "a");
  EXPECT_EQ(prospect->preempted[0].destination[0].host, "b");
  EXPECT_EQ(world.attempt(small).cause, Cause::none);
}

}  // namespace
}  // namespace lockstep
