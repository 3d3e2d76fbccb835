// Runs that do not use their devices: warnings, stops, and the policies of projects and classes.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "platform/core/step/budget/idle.h"
#include "platform/core/step/step_world_for_test.h"

namespace lockstep::step {
namespace {

using namespace testing_world;
using std::chrono::hours;
using std::chrono::minutes;
using std::chrono::seconds;
using ::testing::HasSubstr;

map::ClusterMap map_of_cores(int hosts) {
  map::ClusterMap map = map_of(hosts, 2);
  for (map::Host& host : map.pods[0].leaves[0].hosts)
    for (map::Device& device : host.islands[0].devices) device.kind = map::DeviceKind::core;
  return map;
}

class IdleWorld : public World {
 public:
  explicit IdleWorld(map::ClusterMap map = map_of(2, 2)) : World(std::move(map)) {}

  model::RunId start(model::RunSpec spec = spec_of(1, 2)) {
    if (spec.run_class != model::RunClass::debug) spec.timeout = hours(10);
    const auto run = submit(spec);
    for (int index = 0; index < spec.nodes; ++index)
      apply_event_ok(report(node(run, index), model::NodeState::ready));
    for (int index = 0; index < spec.nodes; ++index) apply_event_ok(running(node(run, index)));
    return run;
  }
  // Its agents call and say since when their nodes are idle; none: they are not.
  void pass(const model::RunId& run, Duration duration, std::optional<Time> idle,
            std::optional<Time> idle_of_second = std::nullopt) {
    const int nodes = this->run(run).spec.nodes;
    for (Duration gone(0); gone < duration; gone += seconds(15)) {
      now += seconds(15);
      for (int index = 0; index < nodes; ++index) {
        auto report = running(node(run, index));
        report.idle_since = index == 0 ? idle : idle_of_second;
        apply_event_ok(report);
      }
      apply_event_ok(model::Tick{});
    }
  }
  std::size_t warnings(const model::RunId& run) const {
    return static_cast<std::size_t>(
        std::ranges::count_if(this->run(run).audit, [](const model::AuditEntry& entry) {
          return entry.what.find("has not used its devices since") != std::string::npos;
        }));
  }
  void set_idle_stop(std::optional<Duration> time) {
    apply_event_ok(model::SetIdleStop{"demo", time});
  }
};

TEST(StepIdle, ARunThatUsesItsDevicesGoesOn) {
  IdleWorld world;
  const auto run = world.start();
  world.pass(run, hours(2), std::nullopt);
  EXPECT_EQ(world.run(run).state, model::RunState::running);
  EXPECT_EQ(world.warnings(run), 0U);
}

TEST(StepIdle, AnIdleRunIsWarnedOnceAndThenStoppedWithoutARetry) {
  IdleWorld world;
  const auto run = world.start();
  const Time since = world.now;
  world.pass(run, minutes(44), since);
  EXPECT_EQ(world.warnings(run), 0U);
  world.pass(run, minutes(15), since);
  EXPECT_EQ(world.warnings(run), 1U);
  EXPECT_THAT(world.run(run).audit.back().what,
              HasSubstr("is stopped at " + text(since + hours(1))));
  EXPECT_EQ(world.run(run).state, model::RunState::running);
  world.pass(run, minutes(1), since);
  EXPECT_EQ(world.attempt(run).cause, model::Cause::idle);
  world.apply_event_ok(world.ended(world.node(run, 0), model::RankState::killed, 15, true));
  world.apply_event_ok(node_gone(world.node(run, 0)));
  EXPECT_EQ(world.run(run).state, model::RunState::cancelled);
  EXPECT_THAT(world.run(run).reason, HasSubstr("did not use its devices for 1h"));
  EXPECT_EQ(world.run(run).epoch, 1);
}

TEST(StepIdle, UseAfterAWarningBeginsANewIdleTimeWithANewWarning) {
  IdleWorld world;
  const auto run = world.start();
  const Time since = world.now;
  world.pass(run, minutes(50), since);
  world.pass(run, minutes(1), std::nullopt);
  const Time again = world.now;
  world.pass(run, minutes(40), again);
  EXPECT_EQ(world.run(run).state, model::RunState::running);
  EXPECT_EQ(world.warnings(run), 1U);
  world.pass(run, minutes(10), again);
  EXPECT_EQ(world.warnings(run), 2U);
}

TEST(StepIdle, AGangIsIdleSinceTheLastOfItsNodes) {
  IdleWorld world;
  const auto run = world.start(spec_of(2, 2));
  const Time since = world.now;
  world.pass(run, minutes(90), since);
  EXPECT_EQ(world.run(run).state, model::RunState::running) << "the second node is used";
  const Time second = world.now;
  world.pass(run, minutes(59), since, second);
  EXPECT_EQ(world.run(run).state, model::RunState::running);
  world.pass(run, minutes(1), since, second);
  EXPECT_EQ(world.attempt(run).cause, model::Cause::idle);
}

TEST(StepIdle, ARunOfTheClassDebugHasAQuarterOfAnHour) {
  IdleWorld world;
  auto spec = spec_of(1, 2);
  spec.run_class = model::RunClass::debug;
  const auto run = world.start(spec);
  const Time since = world.now;
  world.set_idle_stop(hours(3));
  world.pass(run, minutes(14), since);
  EXPECT_EQ(world.warnings(run), 1U);
  EXPECT_EQ(world.run(run).state, model::RunState::running);
  world.pass(run, minutes(1), since);
  EXPECT_EQ(world.attempt(run).cause, model::Cause::idle);
}

TEST(StepIdle, ARunOnCoresIsOnlyWarned) {
  IdleWorld world(map_of_cores(1));
  const auto run = world.start();
  const Time since = world.now;
  world.pass(run, hours(3), since);
  EXPECT_EQ(world.run(run).state, model::RunState::running);
  EXPECT_EQ(world.warnings(run), 1U);
}

TEST(StepIdle, TheProjectsPolicyCountsOnCoresToo) {
  IdleWorld world(map_of_cores(1));
  world.set_idle_stop(minutes(5));
  const auto run = world.start();
  world.pass(run, minutes(5), world.now);
  EXPECT_EQ(world.attempt(run).cause, model::Cause::idle);
}

TEST(StepIdle, AProjectWhosePolicyIsOffIsOnlyWarned) {
  IdleWorld world;
  world.set_idle_stop(Duration(0));
  const auto run = world.start();
  world.pass(run, hours(3), world.now);
  EXPECT_EQ(world.run(run).state, model::RunState::running);
  EXPECT_EQ(world.warnings(run), 1U);
  world.set_idle_stop(std::nullopt);
  world.pass(run, seconds(15), world.now - hours(3));
  EXPECT_EQ(world.attempt(run).cause, model::Cause::idle) << "a change acts at the next tick";
}

TEST(StepIdle, NothingIsDecidedBeforeTheAgentsWereHeard) {
  IdleWorld world;
  const auto run = world.start();
  const Time since = world.now;
  world.pass(run, minutes(30), since);
  world.now += minutes(40);
  world.apply_event_ok(model::Tick{.listening_since = world.now - seconds(1)});
  EXPECT_EQ(world.attempt(run).state, model::AttemptState::running);
}

TEST(StepIdle, ALateOrWrongMomentOfAnAgentIsNotInTheFuture) {
  IdleWorld world;
  const auto run = world.start();
  auto report = world.running(world.node(run, 0));
  report.idle_since = world.now + hours(5);
  world.apply_event_ok(report);
  EXPECT_EQ(world.state.nodes.at(world.node(run, 0)).idle_since, world.now);
}

TEST(StepIdle, PoliciesOutOfBoundsAreRefused) {
  IdleWorld world;
  EXPECT_FALSE(world.apply_event(model::SetIdleStop{"demo", seconds(1)}));
  EXPECT_FALSE(world.apply_event(model::SetIdleStop{"demo", -hours(1)}));
  EXPECT_FALSE(world.apply_event(model::SetIdleStop{"demo", hours(24 * 31)}));
  EXPECT_FALSE(world.apply_event(model::SetIdleStop{"De mo", hours(1)}));
  world.set_idle_stop(std::nullopt);
  EXPECT_TRUE(world.state.limits.empty());
}

}  // namespace
}  // namespace lockstep::step
