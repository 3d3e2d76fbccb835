// A cluster that others use too, whose engine chooses the hosts.
#include <chrono>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "sim/sim_scenario_for_test.h"

namespace lockstep::sim {
namespace {

using std::chrono::minutes;
using std::chrono::seconds;
using ::testing::Contains;
using ::testing::HasSubstr;

SimulationSetup shared_by_others(Duration downtime) {
  return {.map = two_hosts(), .chosen_by = ChosenBy::engine, .downtime = [downtime] {
            return downtime;
          }};
}

// The daemon dies at the boundary, also between a submission and its answer, and no run notices.
bool survives_crash_at(std::int64_t boundary, Duration downtime) {
  SimScenario story(shared_by_others(downtime));
  Simulation& world = story.world();
  world.begin();
  world.crash_points().crash_at(boundary);
  story.submit(SimScenario::spec_of("gang", 2, 2), {.steps = 6});
  story.submit(SimScenario::spec_of("small", 1, 1), {.steps = 5});
  story.submit(SimScenario::spec_of("stopped", 1, 1), {.steps = 1000});
  story.stop_and_wait("stopped");
  world.advance(minutes(20),
                [&] { return world.durable().runs.size() == 3 && world.durable().open.empty(); });
  const bool died = world.crash_points().crashes() > 0;
  world.run_to_rest();
  EXPECT_FALSE(world.result().violation) << *world.result().violation;
  EXPECT_EQ(world.durable().runs.size(), 3u);
  for (const char* name : {"gang", "small"}) {
    EXPECT_EQ(story.run(name).epoch, 1) << story.run(name).reason;
    EXPECT_TRUE(story.is(name, model::RunState::succeeded)) << story.run(name).reason;
    EXPECT_FALSE(story.attempt(name, 1).is_placed);
  }
  EXPECT_TRUE(story.is("stopped", model::RunState::cancelled));
  return died;
}

TEST(SharedCluster, RunsEndAsIfTheDaemonHadLived) {
  std::int64_t boundary = 0;
  for (bool died = true; died; boundary += 4) {
    SCOPED_TRACE(boundary);
    died = survives_crash_at(boundary, seconds(boundary % 3 == 0 ? 20 : 1));
    ASSERT_FALSE(testing::Test::HasFailure());
  }
  EXPECT_GT(boundary, 100) << "the story has as many boundaries, or more";
}

TEST(SharedCluster, TheNextAttemptExcludesTheHostThatFailed) {
  SimScenario story(shared_by_others(seconds(1)));
  Simulation& world = story.world();
  world.begin();
  model::RunSpec spec = SimScenario::spec_of("run", 1, 1);
  spec.rank_loss_retries = 1;
  story.submit(spec, {.steps = 20});
  ASSERT_TRUE(world.advance(minutes(9), [&] {
    return story.is("run", model::RunState::running) &&
           !world.durable().nodes.begin()->second.host.empty();
  }));
  const std::string failed = world.durable().nodes.begin()->second.host;
  world.truth().mark_disturbed(story.run("run").id);
  world.hosts().crash(failed);
  world.context().timeline.after(minutes(1), [&] { world.hosts().boot(failed); });
  ASSERT_TRUE(world.advance(minutes(20), [&] {
    return story.is("run", model::RunState::succeeded);
  })) << world.result().violation.value_or("");
  EXPECT_THAT(story.attempt("run", 1).reason, HasSubstr("host " + failed + " is down"));
  const model::Node& second = world.durable().nodes.at({{story.run("run").id, 2}, 0});
  EXPECT_NE(second.host, failed);
  EXPECT_THAT(world.durable().hosts.at(failed).losses,
              Contains(testing::Field(&model::HostLoss::run, text(story.run("run").id))));
}

}  // namespace
}  // namespace lockstep::sim
