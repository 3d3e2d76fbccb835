// An agent that stands still, as by SIGSTOP, says nothing and obeys nothing: its node is lost,
// ended by force, and the run goes on elsewhere. How quickly that must go is what sim/deadlines.h
// checks.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "sim/story_for_test.h"

namespace lockstep::sim {
namespace {

using std::chrono::minutes;
using std::chrono::seconds;
using ::testing::HasSubstr;

struct Stop {
  const char* name;
  Duration resists{};     // its processes do not end for so long after a kill
  Duration dies_after{};  // after the agent was stopped the daemon dies; zero: it lives
};

class AStoppedAgent : public testing::TestWithParam<Stop> {};

TEST_P(AStoppedAgent, CostsItsAttemptAndNothingElse) {
  Story story([] { return seconds(1); });
  World& world = story.world();
  Timeline& timeline = world.scene().timeline;
  world.hosts().set_stuck(GetParam().resists);
  world.begin();
  story.submit(Story::spec_of("run", 2, 1), {.steps = 40});
  story.stop_agent("run", 1);
  if (GetParam().dies_after > Duration(0))
    timeline.after(seconds(10) + GetParam().dies_after,
                   [&] { world.daemon().die("while an agent stands still"); });
  const bool ended =
      world.pass_time(minutes(5), [&] { return story.is("run", RunState::succeeded); });
  world.settle();
  ASSERT_FALSE(world.verdict().violation) << *world.verdict().violation;
  EXPECT_TRUE(ended);
  EXPECT_EQ(text(story.attempt("run", 1).cause), "node_lost");
  EXPECT_THAT(story.attempt("run", 1).reason,
              HasSubstr("the agent of node 1 on host b was silent for 30s"));
  EXPECT_EQ(story.run("run").epoch, 2);
  EXPECT_EQ(story.run("run").losses, 1);
}
TEST(AnAgentThatNeverCalls, IsGivenUpAfterAMinute) {
  Story story([] { return seconds(1); });
  World& world = story.world();
  world.begin();
  story.submit(Story::spec_of("run", 1, 1), {.steps = 10});
  story.stop_agent_now("run", 0, Cause::launch_failed);
  world.pass_time(minutes(5), [&] { return story.is("run", RunState::succeeded); });
  world.settle();
  ASSERT_FALSE(world.verdict().violation) << *world.verdict().violation;
  EXPECT_THAT(story.attempt("run", 1).reason, HasSubstr("did not call within 1m"));
  EXPECT_EQ(story.run("run").epoch, 2);
}

INSTANTIATE_TEST_SUITE_P(
    Stops, AStoppedAgent,
    testing::Values(Stop{.name = "Simply"}, Stop{.name = "Resisting", .resists = seconds(20)},
                    Stop{.name = "AndTheDaemonDiesBeforeItIsLost", .dies_after = seconds(10)},
                    Stop{.name = "AndTheDaemonDiesWhileItResists",
                         .resists = seconds(20),
                         .dies_after = seconds(33)}),
    [](const auto& stop) { return std::string(stop.param.name); });

}  // namespace
}  // namespace lockstep::sim
