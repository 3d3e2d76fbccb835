// Gangs that start: with ranks that are late, or without a daemon for a while, or with programs
// that report nothing.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "sim/sim_scenario_for_test.h"

namespace lockstep::sim {
namespace {

using std::chrono::hours;
using std::chrono::minutes;
using std::chrono::seconds;
using ::testing::AllOf;
using ::testing::HasSubstr;

struct Late {
  const char* name;
  Duration late;
  std::int64_t attempts;
};

class AGangWithALateNode : public testing::TestWithParam<Late> {};

TEST_P(AGangWithALateNode, WaitsForItNoLongerThanItMay) {
  SimScenario story([] { return seconds(1); });
  Simulation& world = story.world();
  world.begin();
  story.submit(SimScenario::spec_of("run", 2, 1), {.steps = 10});
  world.advance(minutes(1), [&] { return world.hosts().agents().size() == 2; });
  story.agent_of("run", 1)->set_start_delay(GetParam().late);
  world.advance(hours(1), [&] { return story.is("run", model::RunState::succeeded); });
  world.run_to_rest();
  ASSERT_FALSE(world.result().violation) << *world.result().violation;
  EXPECT_EQ(story.run("run").epoch, GetParam().attempts);
  if (GetParam().attempts == 1) return;
  EXPECT_THAT(story.attempt("run", 1).reason,
              AllOf(HasSubstr("5m"), HasSubstr("node 1 on host b is still ready")));
}
INSTANTIATE_TEST_SUITE_P(Times, AGangWithALateNode,
                         testing::Values(Late{"InTime", minutes(4), 1},
                                         Late{"TooLate", hours(2), 2}),
                         [](const auto& late) { return std::string(late.param.name); });

struct Alone {
  const char* name;
  std::ptrdiff_t begun;  // nodes, when the daemon goes away
  Duration absence;
  int steps;  // of a second each, in two minutes
  model::RunState end;
  std::vector<model::Cause> causes;  // of the attempts
};

class AGangLeftAlone : public testing::TestWithParam<Alone> {};

TEST_P(AGangLeftAlone, KeepsItsTimeOutAndLosesNoTimeBeforeItIsWhole) {
  const Alone& alone = GetParam();
  SimScenario story([&] { return alone.absence; });
  Simulation& world = story.world();
  model::RunSpec spec = SimScenario::spec_of("run", 2, 1);
  spec.timeout = minutes(2);
  world.begin();
  story.submit(spec, {.steps = alone.steps, .reports_steps = false});
  world.advance(minutes(1), [&] {
    return alone.begun == std::ranges::count_if(world.hosts().agents(), [](const auto& entry) {
             return entry.second->awaits_other_nodes();
           });
  });
  world.daemon().crash("as a gang starts");
  world.advance(hours(3), [&] { return story.is("run", alone.end); });
  world.run_to_rest();
  ASSERT_FALSE(world.result().violation) << *world.result().violation;
  EXPECT_EQ(text(story.run("run").state), text(alone.end)) << story.run("run").reason;
  ASSERT_EQ(story.run("run").epoch, std::ssize(alone.causes));
  for (std::int64_t epoch = 1; epoch <= story.run("run").epoch; ++epoch)
    EXPECT_EQ(text(story.attempt("run", epoch).cause),
              text(alone.causes[static_cast<std::size_t>(epoch) - 1]));
}
INSTANTIATE_TEST_SUITE_P(
    Gangs, AGangLeftAlone,
    testing::Values(
        Alone{
            "WholeForGood", 2, hours(1), 1000, model::RunState::timed_out, {model::Cause::timeout}},
        Alone{
            "WholeAndDoneInTime", 2, hours(1), 100, model::RunState::succeeded, {model::Cause::ok}},
        Alone{"HalfForAWhile", 1, minutes(6), 100, model::RunState::succeeded, {model::Cause::ok}},
        Alone{"HalfForGood",
              1,
              hours(1),
              100,
              model::RunState::succeeded,
              {model::Cause::launch_failed, model::Cause::ok}}),
    [](const auto& alone) { return std::string(alone.param.name); });

}  // namespace
}  // namespace lockstep::sim
