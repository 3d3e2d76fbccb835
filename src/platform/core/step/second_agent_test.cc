// A node whose agent was started twice.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "platform/core/step/step_world_for_test.h"

namespace lockstep::step {
namespace {

using std::chrono::minutes;
using ::testing::HasSubstr;
using testing_world::spec_of;

class SecondAgentTest : public testing_world::StepTest {
 protected:
  SecondAgentTest() {
    world.all_ready(run);
    world.apply_event_ok(by("a", world.running(node)));
  }
  model::NodeReport by(const char* incarnation, model::NodeReport report, std::int64_t items = 0) {
    report.agent = {.id = incarnation, .machine = std::string("host of ") + incarnation};
    report.last_item = items;
    return report;
  }
  const model::Node& row() const { return world.state.nodes.at(node); }
  model::CommandKind command_of(const char* incarnation) const {
    return model::command_for(world.state, {"", node}, incarnation).kind;
  }
  const std::vector<model::AuditEntry>& events() const { return world.run(run).audit; }

  const model::RunId run = world.submit(spec_of(1, 1));
  const model::NodeId node = world.node(run, 0);
};

TEST_F(SecondAgentTest, LeavesAndChangesNothingOfTheNode) {
  const model::Node before = row();
  auto second = by("b", world.report(node, model::NodeState::stopping));
  second.address = "10.9.9.9";
  second.message = "could not start its ranks";
  world.now += minutes(1);
  world.apply_event_ok(second);
  EXPECT_EQ(command_of("b"), model::CommandKind::leave);
  EXPECT_EQ(command_of("a"), model::CommandKind::none);
  EXPECT_EQ(row().address, before.address);
  EXPECT_EQ(row().last_heartbeat, before.last_heartbeat);
  EXPECT_EQ(world.attempt(run).state, model::AttemptState::running);
}

TEST_F(SecondAgentTest, IsAmongTheRunsEventsOnceWithBothHostsAndAllItsItems) {
  world.apply_event_ok(by("b", world.running(node)));
  ASSERT_EQ(events().size(), 1u);
  EXPECT_THAT(events()[0].what, HasSubstr("called from host of b"));
  EXPECT_THAT(events()[0].what, HasSubstr("is on host of a"));
  world.apply_event_ok(by("b", world.running(node), 3));
  world.apply_event_ok(by("b", world.running(node), 5));
  world.apply_event_ok(by("b", world.running(node), 5));
  ASSERT_EQ(events().size(), 1u);
  EXPECT_THAT(events()[0].what, HasSubstr("5 items that it sent were not stored"));
}

TEST_F(SecondAgentTest, IsRefusedAlsoWhileTheFirstIsUnreachableAndOnceTheNodeIsLost) {
  world.advance_time(minutes(2));
  ASSERT_TRUE(row().unreachable_since);
  world.apply_event_ok(by("b", world.running(node)));
  EXPECT_TRUE(row().unreachable_since);
  world.advance_time(minutes(3));
  ASSERT_EQ(row().state, model::NodeState::lost);
  world.apply_event_ok(by("c", world.running(node), 2));
  EXPECT_THAT(events().back().what, HasSubstr("2 items"));
}

TEST_F(SecondAgentTest, OfAnOlderBuildNamesNoIncarnationAndCountsAsTheFirst) {
  world.now += minutes(1);
  world.apply_event_ok(world.running(node));
  EXPECT_EQ(row().last_heartbeat, world.now);
  EXPECT_TRUE(events().empty());
}

TEST_F(SecondAgentTest, OfWhichThereAreManyIsRefusedAndFillsNoRow) {
  for (const char* id : {"b", "c", "d", "e", "f", "g", "h", "i", "j", "k", "l"})
    world.apply_event_ok(by(id, world.running(node)));
  EXPECT_EQ(row().agents.size(), 9u);
  ASSERT_EQ(events().size(), 9u);
  EXPECT_THAT(events().back().what, HasSubstr("more than 8 other agents of node 0"));
  EXPECT_EQ(command_of("l"), model::CommandKind::leave);
}

}  // namespace
}  // namespace lockstep::step
