// Attempts whose hosts the engine chooses.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "platform/core/step/starting/attempt_placement.h"
#include "platform/core/step/step_world_for_test.h"

namespace lockstep::step {
namespace {

using std::chrono::hours;
using ::testing::HasSubstr;
using ::testing::Not;

class StepUnplacedTest : public testing_world::StepTest {
 protected:
  // Two nodes of two devices, without hosts.
  StepUnplacedTest() {
    auto spec = testing_world::spec_of(2, 2);
    spec.not_before = world.now + hours(1);
    run = world.submit(spec);
    Draft draft(world.state, world.now);
    start_attempt(draft, {run, {{"", {0, 1}}, {"", {0, 1}}}});
    for (const model::Change& change : draft.finish().changes) model::apply(world.state, change);
  }
  const model::Node& node(int index) const { return world.state.nodes.at(world.node(run, index)); }
  void see(int index, const model::Observation& seen) {
    world.apply_event_ok(model::NodeSeen{world.node(run, index), seen});
  }

  model::RunId run;
};

TEST_F(StepUnplacedTest, TheEngineNamesTheHostOnce) {
  EXPECT_FALSE(world.attempt(run).is_placed);
  EXPECT_EQ(node(0).host, "");
  see(0, {.phase = model::NodePhase::pending, .reason = "Resources"});
  EXPECT_EQ(node(0).host, "");
  EXPECT_THAT(world.run(run).reason, HasSubstr("Resources"));
  see(0, {.phase = model::NodePhase::starting, .host = "b"});
  EXPECT_EQ(node(0).host, "b");
  see(0, {.host = "a"});
  EXPECT_EQ(node(0).host, "b");
}

TEST_F(StepUnplacedTest, ItsRanksRunAndSucceed) {
  see(0, {.host = "b"});
  see(1, {.host = "a"});
  world.all_running(run);
  EXPECT_EQ(world.run(run).state, model::RunState::running);
  for (const model::NodeId& id : world.nodes(run))
    world.apply_event_ok(world.ended(id, model::RankState::exited, 0));
  world.all_terminated(run);
  EXPECT_EQ(world.run(run).state, model::RunState::succeeded);
}

TEST_F(StepUnplacedTest, ItHoldsNoDevicesForTheScheduler) {
  see(0, {.host = "a"});
  see(1, {.host = "b"});
  const auto other = world.submit(testing_world::spec_of(2, 2));
  EXPECT_EQ(world.run(other).state, model::RunState::starting);
  EXPECT_EQ(world.state.nodes.at(world.node(other, 1)).host, "b");
}

TEST_F(StepUnplacedTest, ALossNamesTheHostThatTheSameObservationNames) {
  see(0, {.phase = model::NodePhase::gone,
          .reason = "down",
          .blame = model::EndBlame::host,
          .host = "a"});
  EXPECT_THAT(world.attempt(run).reason, HasSubstr("node 0 on host a"));
  EXPECT_EQ(world.state.hosts.at("a").losses.size(), 1u);
}

TEST_F(StepUnplacedTest, ALossBeforeTheHostIsKnownBlamesNone) {
  see(0, {.phase = model::NodePhase::gone, .reason = "down", .blame = model::EndBlame::host});
  EXPECT_THAT(world.attempt(run).reason, HasSubstr("node 0 could not be started"));
  EXPECT_THAT(world.attempt(run).reason, Not(HasSubstr("host")));
  EXPECT_TRUE(world.state.hosts.empty());
}

TEST_F(StepUnplacedTest, AnAdoptedOneHasNoHostUntilItIsNamed) {
  const model::AttemptId attempt = world.attempt(run).id;
  testing_world::World other(testing_world::map_of(2, 2));
  other.state.store.generation = "2222222222222222";
  model::OrphansListed listed;
  for (int index = 0; index < 2; ++index)
    listed.orphans.push_back({.id = {"1111111111111111", {attempt, index}},
                              .attempt_record = model::record_of(world.state, attempt),
                              .devices = {"", {0, 1}}});
  other.apply_event_ok(listed);
  other.apply_event_ok(model::AdoptOrphan{run, "root"});
  EXPECT_FALSE(other.attempt(run).is_placed);
  EXPECT_EQ(other.state.nodes.at(other.node(run, 1)).host, "");
}

}  // namespace
}  // namespace lockstep::step
