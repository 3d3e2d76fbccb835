// A suspended agent (SIGSTOP) sends no report and applies no command: its node is lost and killed,
// and the run goes on elsewhere. sim/checks/deadline_checker.h checks the time limits.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "sim/sim_scenario_for_test.h"

namespace lockstep::sim {
namespace {

using std::chrono::minutes;
using std::chrono::seconds;
using ::testing::HasSubstr;

struct Stop {
  const char* name;
  Duration resists{};     // its processes do not end for so long after a kill
  Duration dies_after{};  // the daemon crashes so long after the agent was stopped; zero: it lives
};

class AStoppedAgent : public testing::TestWithParam<Stop> {};

TEST_P(AStoppedAgent, CostsItsAttemptAndNothingElse) {
  SimScenario story([] { return seconds(1); });
  Simulation& world = story.world();
  Timeline& timeline = world.context().timeline;
  world.hosts().set_kill_delay(GetParam().resists);
  world.begin();
  story.submit(SimScenario::spec_of("run", 2, 1), {.steps = 40});
  story.suspend_agent("run", 1);
  if (GetParam().dies_after > Duration(0))
    timeline.after(seconds(10) + GetParam().dies_after,
                   [&] { world.daemon().crash("while an agent stands still"); });
  const bool ended =
      world.advance(minutes(7), [&] { return story.is("run", model::RunState::succeeded); });
  world.run_to_rest();
  ASSERT_FALSE(world.result().violation) << *world.result().violation;
  EXPECT_TRUE(ended);
  EXPECT_EQ(text(story.attempt("run", 1).cause), "node_lost");
  EXPECT_THAT(story.attempt("run", 1).reason,
              HasSubstr("the agent of node 1 on host b was silent for 2m"));
  EXPECT_EQ(story.run("run").epoch, 2);
  EXPECT_EQ(story.run("run").losses, 1);
}

// Shorter than the time after which a node is lost.
TEST(AnAgentThatIsStoppedForAMoment, CostsItsRunNothing) {
  SimScenario story([] { return seconds(1); });
  Simulation& world = story.world();
  world.begin();
  story.submit(SimScenario::spec_of("run", 2, 1), {.steps = 200});
  bool was_unreachable = false;
  story.until_done([&] {
    if (!story.is("run", model::RunState::running)) return false;
    const auto agent = story.agent_of("run", 1);
    agent->suspend();
    world.context().timeline.after(seconds(100), [agent] { agent->resume(); });
    return true;
  });
  world.advance(minutes(10), [&] {
    for (const auto& [id, node] : world.durable().nodes)
      was_unreachable = was_unreachable || node.unreachable_since;
    return story.is("run", model::RunState::succeeded);
  });
  world.run_to_rest();
  ASSERT_FALSE(world.result().violation) << *world.result().violation;
  EXPECT_TRUE(was_unreachable);
  EXPECT_EQ(story.run("run").epoch, 1);
  EXPECT_EQ(story.run("run").audit.size(), 2u);
}

TEST(AnAgentThatNeverCalls, IsGivenUpAfterAMinute) {
  SimScenario story([] { return seconds(1); });
  Simulation& world = story.world();
  world.begin();
  story.submit(SimScenario::spec_of("run", 1, 1), {.steps = 10});
  world.advance(minutes(1), [&] { return !world.hosts().agents().empty(); });
  story.suspend_agent_now("run", 0, model::Cause::launch_failed);
  world.advance(minutes(5), [&] { return story.is("run", model::RunState::succeeded); });
  world.run_to_rest();
  ASSERT_FALSE(world.result().violation) << *world.result().violation;
  EXPECT_THAT(story.attempt("run", 1).reason, HasSubstr("did not call within 1m"));
  EXPECT_EQ(story.run("run").epoch, 2);
}

INSTANTIATE_TEST_SUITE_P(
    Stops, AStoppedAgent,
    testing::Values(Stop{.name = "Simply"}, Stop{.name = "Resisting", .resists = seconds(20)},
                    Stop{.name = "AndTheDaemonDiesBeforeItIsLost", .dies_after = seconds(10)},
                    Stop{.name = "AndTheDaemonDiesWhileItResists",
                         .resists = seconds(20),
                         .dies_after = seconds(123)}),
    [](const auto& stop) { return std::string(stop.param.name); });

}  // namespace
}  // namespace lockstep::sim
