// Runs that are to start after others.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "sim/sim_scenario_for_test.h"

namespace lockstep::sim {
namespace {

using std::chrono::minutes;
using std::chrono::seconds;
using ::testing::HasSubstr;

model::RunSpec follower_of(const std::vector<std::string>& others) {
  model::RunSpec spec = SimScenario::spec_of("follower", 1, 1);
  spec.after = others;
  return spec;
}

TEST(AFollower, StartsOnceAllHaveSucceededThoughTheDaemonDies) {
  SimScenario story([] { return seconds(20); });
  Simulation& world = story.world();
  world.begin();
  story.submit(SimScenario::spec_of("first", 1, 1), {.steps = 5});
  story.submit(SimScenario::spec_of("second", 1, 1), {.steps = 15});
  story.submit(follower_of({"default/1", "default/2"}), {.steps = 5});
  world.advance(seconds(12), [] { return false; });
  EXPECT_THAT(story.run("follower").reason, HasSubstr("default/2 has succeeded"));
  world.daemon().crash("while somebody waits for another");
  world.advance(minutes(5), [&] { return story.is("follower", model::RunState::succeeded); });
  world.run_to_rest();
  ASSERT_FALSE(world.result().violation) << *world.result().violation;
  EXPECT_EQ(story.run("follower").epoch, 1);
}

TEST(AFollower, DoesNotWaitForTheOthersOnceOneHasFailed) {
  SimScenario story([] { return seconds(1); });
  Simulation& world = story.world();
  world.begin();
  story.submit(SimScenario::spec_of("slow", 1, 1), {.steps = 100});
  model::RunSpec failing = SimScenario::spec_of("failing", 1, 1);
  story.submit(failing,
               {.steps = 5, .fault = ProgramFault::exits, .fault_step = 2, .faulty_attempts = 1});
  story.submit(follower_of({"default/1", "default/2"}), {.steps = 5});
  world.advance(minutes(1), [&] { return story.is("follower", model::RunState::cancelled); });
  EXPECT_EQ(text(story.run("follower").state), "cancelled");
  EXPECT_EQ(text(story.run("slow").state), "running");
  EXPECT_THAT(story.run("follower").reason, HasSubstr("default/2, after which it was to start"));
  world.run_to_rest();
  ASSERT_FALSE(world.result().violation) << *world.result().violation;
}

}  // namespace
}  // namespace lockstep::sim
