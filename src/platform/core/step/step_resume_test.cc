// Runs that a user resumes.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "platform/core/step/step_world_for_test.h"

namespace lockstep::step {
namespace {

using std::chrono::seconds;
using ::testing::AllOf;
using ::testing::HasSubstr;
using testing_world::spec_of;

class StepResumeTest : public testing_world::StepTest {};

TEST_F(StepResumeTest, AResumedRunStandsLastAndHasItsTimeAndItsRetriesAnew) {
  auto spec = spec_of(2, 2);
  spec.rank_loss_retries = 1;
  const model::RunId run = world.submit(spec);
  world.all_running(run);
  world.now += seconds(60);
  lose_a_rank(run);
  lose_a_rank(run);
  ASSERT_EQ(world.run(run).state, model::RunState::failed);
  const model::RunId first = world.submit(spec_of(2, 2));
  world.now += seconds(1);
  const model::RunId second = world.submit(spec_of(2, 2));
  world.now += seconds(1);
  world.apply_event_ok(model::ResumeRun{run});
  EXPECT_EQ(world.run(run).state, model::RunState::queued);
  EXPECT_THAT(world.run(run).reason, HasSubstr("behind other runs"));
  EXPECT_FALSE(world.run(run).ended);
  EXPECT_EQ(world.run(run).time_used, Duration(0));
  EXPECT_EQ(world.run(run).losses, 0);
  EXPECT_EQ(world.run(run).queued, world.now);
  for (const model::RunId& other : {first, second}) {
    world.apply_event_ok(model::StopRun{other, ""});
    if (world.run(other).epoch) world.all_terminated(other);
  }
  EXPECT_EQ(world.run(run).state, model::RunState::starting);
  EXPECT_EQ(world.run(run).epoch, 3);
  EXPECT_THAT(world.run(run).reason, AllOf(HasSubstr("resumed"), HasSubstr("attempt 3")));
}

TEST_F(StepResumeTest, ARunIsSaidToGoOnFromACheckpointOnceOneIsThereWhicheverAttemptWroteIt) {
  const model::RunId run = world.submit(spec_of(1, 1));
  world.all_running(run);
  auto word = world.running(world.node(run, 0));
  word.last_checkpoint = world.now;
  world.apply_event_ok(word);
  const std::string loss = "rank 0 on host a was killed by signal 9 (SIGKILL); ";
  lose_a_rank(run);
  EXPECT_THAT(world.run(run).reason, AllOf(HasSubstr(loss), HasSubstr("attempt 2"),
                                           HasSubstr("checkpoint"), HasSubstr("retry 1 of 3")));
  lose_a_rank(run);
  EXPECT_THAT(world.run(run).reason,
              AllOf(HasSubstr(loss), HasSubstr("attempt 3"), HasSubstr("after 2s"),
                    HasSubstr("checkpoint"), HasSubstr("retry 2 of 3")));
}

TEST_F(StepResumeTest, AStoppedRunThatIsResumedGoesOnUntilItsEnd) {
  const model::RunId run = world.submit(spec_of(1, 1));
  world.apply_event_ok(model::StopRun{run, ""});
  world.all_terminated(run);
  ASSERT_EQ(world.run(run).state, model::RunState::cancelled);
  world.apply_event_ok(model::ResumeRun{run});
  world.all_running(run);
  world.apply_event_ok(world.ended(world.node(run, 0), model::RankState::exited, 0));
  world.all_terminated(run);
  EXPECT_EQ(world.run(run).state, model::RunState::succeeded);
}

TEST_F(StepResumeTest, OnlyARunThatEndedOtherwiseThanWellIsResumed) {
  const model::RunId run = world.submit(spec_of(1, 1));
  EXPECT_THAT(world.apply_event(model::ResumeRun{run}).error().message,
              HasSubstr("demo/1 has not ended, it is starting; `lockstep stop demo/1`"));
  world.all_running(run);
  world.apply_event_ok(world.ended(world.node(run, 0), model::RankState::exited, 0));
  world.all_terminated(run);
  EXPECT_THAT(world.apply_event(model::ResumeRun{run}).error().message,
              HasSubstr("demo/1 has succeeded, so there is nothing to resume"));
  EXPECT_EQ(world.apply_event(model::ResumeRun{{"demo", 9}}).error().code, Code::not_found);
}

}  // namespace
}  // namespace lockstep::step
