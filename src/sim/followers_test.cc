// Runs that are to start after others.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "sim/story_for_test.h"

namespace lockstep::sim {
namespace {

using std::chrono::minutes;
using std::chrono::seconds;
using ::testing::HasSubstr;

RunSpec follower_of(const std::vector<std::string>& others) {
  RunSpec spec = Story::spec_of("follower", 1, 1);
  spec.after = others;
  return spec;
}

TEST(AFollower, StartsOnceAllHaveSucceededThoughTheDaemonDies) {
  Story story([] { return seconds(20); });
  World& world = story.world();
  world.begin();
  story.submit(Story::spec_of("first", 1, 1), {.steps = 5});
  story.submit(Story::spec_of("second", 1, 1), {.steps = 15});
  story.submit(follower_of({"default/1", "default/2"}), {.steps = 5});
  world.pass_time(seconds(12), [] { return false; });
  EXPECT_EQ(story.run("follower").reason, "waits until default/2 has succeeded");
  world.daemon().die("while somebody waits for another");
  world.pass_time(minutes(5), [&] { return story.is("follower", RunState::succeeded); });
  world.settle();
  ASSERT_FALSE(world.verdict().violation) << *world.verdict().violation;
  EXPECT_EQ(story.run("follower").epoch, 1);
}

TEST(AFollower, DoesNotWaitForTheOthersOnceOneHasFailed) {
  Story story([] { return seconds(1); });
  World& world = story.world();
  world.begin();
  story.submit(Story::spec_of("slow", 1, 1), {.steps = 100});
  RunSpec failing = Story::spec_of("failing", 1, 1);
  story.submit(failing,
               {.steps = 5, .misfortune = Misfortune::exits, .bad_step = 2, .bad_attempts = 1});
  story.submit(follower_of({"default/1", "default/2"}), {.steps = 5});
  world.pass_time(minutes(1), [&] { return story.is("follower", RunState::cancelled); });
  EXPECT_EQ(text(story.run("follower").state), "cancelled");
  EXPECT_EQ(text(story.run("slow").state), "running");
  EXPECT_THAT(story.run("follower").reason, HasSubstr("default/2, after which it was to start"));
  world.settle();
  ASSERT_FALSE(world.verdict().violation) << *world.verdict().violation;
}

}  // namespace
}  // namespace lockstep::sim
