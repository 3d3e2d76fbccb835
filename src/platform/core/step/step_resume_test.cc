// Runs that a user resumes.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "platform/core/step/step_world_for_test.h"

namespace lockstep {
namespace {

using std::chrono::seconds;
using ::testing::HasSubstr;
using testing_world::spec_of;

class StepResumeTest : public testing_world::StepTest {};

TEST_F(StepResumeTest, AResumedRunStandsLastAndHasItsTimeAndItsRetriesAnew) {
  auto spec = spec_of(2, 2);
  spec.rank_loss_retries = 1;
  const RunId run = world.submit(spec);
  world.all_running(run);
  world.now += seconds(60);
  lose_a_rank(run);
  lose_a_rank(run);
  ASSERT_EQ(world.run(run).state, RunState::failed);
  const RunId first = world.submit(spec_of(2, 2));
  world.now += seconds(1);
  const RunId second = world.submit(spec_of(2, 2));
  world.now += seconds(1);
  world.must(ResumeRun{run});
  EXPECT_EQ(world.run(run).state, RunState::queued);
  EXPECT_EQ(world.run(run).reason, "waits behind demo/3 in the queue");
  EXPECT_FALSE(world.run(run).ended);
  EXPECT_EQ(world.run(run).charged, Duration(0));
  EXPECT_EQ(world.run(run).losses, 0);
  EXPECT_EQ(world.run(run).queued, world.now);
  for (const RunId& other : {first, second}) {
    world.must(StopRun{other, ""});
    if (world.run(other).epoch) world.all_gone(other);
  }
  EXPECT_EQ(world.run(run).state, RunState::starting);
  EXPECT_EQ(world.run(run).epoch, 3);
  EXPECT_EQ(world.run(run).reason, "resumed; attempt 3 follows");
}

TEST_F(StepResumeTest, ARunIsSaidToGoOnFromACheckpointOnceOneIsThereWhicheverAttemptWroteIt) {
  const RunId run = world.submit(spec_of(1, 1));
  world.all_running(run);
  auto word = world.running(world.node(run, 0));
  word.saved = world.now;
  world.must(word);
  const std::string loss = "rank 0 on host a was killed by signal 9 (SIGKILL); ";
  lose_a_rank(run);
  EXPECT_EQ(world.run(run).reason,
            loss + "attempt 2 goes on from the last checkpoint (retry 1 of 3)");
  lose_a_rank(run);
  EXPECT_EQ(
      world.run(run).reason,
      loss + "attempt 3 follows after 2s and goes on from the last checkpoint (retry 2 of 3)");
}

TEST_F(StepResumeTest, AStoppedRunThatIsResumedGoesOnUntilItsEnd) {
  const RunId run = world.submit(spec_of(1, 1));
  world.must(StopRun{run, ""});
  world.all_gone(run);
  ASSERT_EQ(world.run(run).state, RunState::cancelled);
  world.must(ResumeRun{run});
  world.all_running(run);
  world.must(world.ended(world.node(run, 0), RankState::exited, 0));
  world.all_gone(run);
  EXPECT_EQ(world.run(run).state, RunState::succeeded);
}

TEST_F(StepResumeTest, OnlyARunThatEndedOtherwiseThanWellIsResumed) {
  const RunId run = world.submit(spec_of(1, 1));
  EXPECT_THAT(world.happen(ResumeRun{run}).error().message,
              HasSubstr("demo/1 has not ended, it is starting; `lockstep stop demo/1`"));
  world.all_running(run);
  world.must(world.ended(world.node(run, 0), RankState::exited, 0));
  world.all_gone(run);
  EXPECT_THAT(world.happen(ResumeRun{run}).error().message,
              HasSubstr("demo/1 has succeeded, so there is nothing to resume"));
  EXPECT_EQ(world.happen(ResumeRun{{"demo", 9}}).error().code, Code::not_found);
}

}  // namespace
}  // namespace lockstep
